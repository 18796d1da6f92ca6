// A few threads that share the parts of one job. `share(n, work)` calls work(i) for i = 0 .. n - 1 and returns when all
// are done.
//
// Parts are claimed, by the caller too, a few neighbours at a time: a share of what is left, so the last ones come one by
// one. A claim is a word that two cores take from each other, which takes longer than a small part. A helper that sleeps,
// or waits for a core beside another busy program, costs nothing: the caller simply does its parts. Only a helper that
// loses its core in the middle of a claim is waited for; if that lasts, helpers are left out for a while, longer each time.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>
#ifndef _WIN32
#include <pthread.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace threads {

using Clock = std::chrono::steady_clock;
constexpr auto SPIN = std::chrono::microseconds(150);     // the gap between two stages is some 10
constexpr auto TOO_LONG = std::chrono::microseconds(400);  // to wait for one part: a helper has lost its core
constexpr auto LEAST_REST = std::chrono::milliseconds(20), LONGEST_REST = std::chrono::milliseconds(2000);

constexpr int LOOKS = 64;   // at the ticket between two looks at the clock
constexpr int APART = 128;  // bytes: two lines of the cache, which processors like to fetch in pairs

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

// Helpers are not to run where the caller does. Linux prefers a core that is not idle to one that the host of a virtual
// machine has put to sleep, so a helper that is woken would begin on the caller's own core, and each would wait for the
// other: a step after a pause took twice as long.
class Elsewhere {
  public:
    // In each helper, before it first sleeps.
    void enter() {
#ifdef __linux__
        std::lock_guard<std::mutex> guard(lock);
        members.push_back(static_cast<pid_t>(syscall(SYS_gettid)));
        CPU_ZERO(&given);
#endif
    }

    // By the caller, before it wakes helpers: they may run where it may, but not where it is. False if that leaves no
    // core, so that nobody need be woken. It asks each time, for all of this can change, and tells only what is new.
    bool keep() {
#ifdef __linux__
        const int here = sched_getcpu();
        cpu_set_t others;
        if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof others, &others) != 0) return true;
        CPU_CLR(here, &others);
        std::lock_guard<std::mutex> guard(lock);
        const bool is_new = !CPU_EQUAL(&others, &given);
        given = others;
        if (CPU_COUNT(&others) == 0) return false;
        if (is_new)
            for (pid_t member : members) sched_setaffinity(member, sizeof others, &others);
#endif
        return true;
    }

#ifdef __linux__
  private:
    std::mutex lock;
    std::vector<pid_t> members;
    cpu_set_t given = {};  // what was told last
#endif
};

// What will be read next, a few ranges one after another. A helper that has nothing to do brings them nearer, for between
// two stages nobody reads memory. Only addresses are kept, and nothing at them is looked at: one that is gone by then, or
// that two callers have put together, does no harm.
class alignas(APART) Ahead {
  public:
    struct Range {
        const void* begin;
        int64_t bytes;
    };
    static constexpr int64_t COUNT = 4;

    // By the caller.
    void set(const std::array<Range, COUNT>& ranges) {
        for (int64_t i = 0; i < COUNT; i++) {
            begins[i].store(reinterpret_cast<uintptr_t>(ranges[i].begin), std::memory_order_relaxed);
            sizes[i].store(ranges[i].bytes, std::memory_order_relaxed);
        }
        next.store(0, std::memory_order_release);
    }

    // By a helper: the next piece. False if there is none.
    bool fetch() {
        int64_t seen = next.load(std::memory_order_acquire);
        const int64_t i = seen >> SHIFT, at = seen & ((int64_t{1} << SHIFT) - 1);
        if (i >= COUNT) return false;
        const int64_t size = sizes[i].load(std::memory_order_relaxed);
        const int64_t after = at + PIECE < size ? seen + PIECE : (i + 1) << SHIFT;
        if (!next.compare_exchange_strong(seen, after, std::memory_order_relaxed) || at >= size) return true;
        const uintptr_t begin = begins[i].load(std::memory_order_relaxed) + at;
        for (int64_t line = 0; line < PIECE; line += 64) __builtin_prefetch(reinterpret_cast<const void*>(begin + line), 0, 3);
        return true;
    }

  private:
    static constexpr int64_t PIECE = 4096, SHIFT = 40;
    std::atomic<int64_t> next{COUNT << SHIFT};  // which range, and how far in it
    std::atomic<uintptr_t> begins[COUNT] = {};
    std::atomic<int64_t> sizes[COUNT] = {};
};

class Crew {
  public:
    void resize(int count) {  // never while a job runs: both take `owner`
        std::lock_guard<std::mutex> lock(owner);
        while (static_cast<int>(helpers.size()) < count - 1) {
            helpers.emplace_back([this, number = static_cast<int>(helpers.size())] { help(number); });
            helpers.back().detach();  // they live as long as the process
        }
        active.store(count - 1);
    }

    // most: parts of one claim
    template <class Work> void share(int64_t parts, int64_t most, const Work& work) {
        std::unique_lock<std::mutex> lock(owner, std::defer_lock);
        bool alone = parts < 2 || active.load(std::memory_order_relaxed) == 0 || !lock.try_lock();
        if (alone || Clock::now() < rest_until) {
            for (int64_t i = 0; i < parts; i++) work(i);
            return;
        }
        run = [](const void* w, int64_t first, int64_t stop) {
            for (int64_t i = first; i < stop; i++) (*static_cast<const Work*>(w))(i);
        };
        context = &work;
        all = parts;
        largest_claim.store(most, std::memory_order_relaxed);
        done.store(0, std::memory_order_relaxed);
        round++;
        ticket.store(Ticket(round, parts).bits);  // from here on parts can be claimed
        if (sleepers.load() > 0 && elsewhere.keep()) {
            std::lock_guard<std::mutex> guard(bed);
            wake.notify_all();
        }
        while (claim_and_work()) {
        }
        if (done.load(std::memory_order_acquire) < parts) wait_for(parts);
    }

    // What the caller will read after this, if it can be told.
    void will_read(const std::array<Ahead::Range, Ahead::COUNT>& ranges) {
        if (active.load(std::memory_order_relaxed) > 0) ahead.set(ranges);
    }

  private:
    // What is left of which job, in one word, so that claiming is one atomic act: a stale claim cannot succeed.
    struct Ticket {
        uint64_t bits;
        explicit Ticket(uint64_t raw) : bits(raw) {}
        Ticket(uint64_t round, uint64_t left) : bits(round << 32 | left) {}
        uint32_t left() const { return static_cast<uint32_t>(bits); }
    };

    bool claim_and_work() {
        uint64_t seen = ticket.load(std::memory_order_acquire);
        int64_t left, count;
        do {
            left = Ticket(seen).left();
            if (left == 0) return false;
            const int64_t members = active.load(std::memory_order_relaxed) + 1;
            count = std::clamp<int64_t>(left / members, 1, largest_claim.load(std::memory_order_relaxed));
        } while (!ticket.compare_exchange_weak(seen, seen - count, std::memory_order_acq_rel));
        run(context, all - left, all - left + count);  // none of these can change before these parts are done
        done.fetch_add(count, std::memory_order_release);
        return true;
    }

    void wait_for(int64_t parts) {
        auto began = Clock::now();
        while (done.load(std::memory_order_acquire) < parts) pause();
        auto now = Clock::now();
        if (now - began > TOO_LONG) {
            rest = std::min<Clock::duration>(std::max<Clock::duration>(2 * rest, LEAST_REST), LONGEST_REST);
            rest_until = now + rest;
        } else if (rest > Clock::duration::zero() && now - rest_until > rest) {
            rest = Clock::duration::zero();  // it has gone well for as long as it rested
        }
    }

    void help(int number) {
        elsewhere.enter();
        auto began = Clock::now();
        for (;;) {
            if (number < active.load(std::memory_order_relaxed) && claim_and_work()) {
                began = Clock::now();
                continue;
            }
            for (int i = 0; i < LOOKS && !work_left(); i++)
                if (!ahead.fetch()) pause();
            if (Clock::now() - began > SPIN) {
                sleep(number);
                began = Clock::now();
            }
        }
    }

    bool work_left() const { return Ticket(ticket.load()).left() != 0; }

    void sleep(int number) {
        std::unique_lock<std::mutex> guard(bed);
        sleepers.fetch_add(1);
        if (number >= active.load() || !work_left()) wake.wait(guard);
        sleepers.fetch_sub(1);
    }

    Elsewhere elsewhere;
    Ahead ahead;
    std::mutex owner, bed;
    std::condition_variable wake;
    std::vector<std::thread> helpers;
    uint32_t round = 0;
    // Apart from each other in memory: what one core writes, the other one has to fetch, with all that lies beside it.
    alignas(APART) std::atomic<int> active{0};
    std::atomic<int> sleepers{0};
    alignas(APART) std::atomic<uint64_t> ticket{0};
    std::atomic<int64_t> largest_claim{1};
    int64_t all = 0;
    void (*run)(const void*, int64_t, int64_t) = nullptr;
    const void* context = nullptr;
    alignas(APART) std::atomic<int64_t> done{0};
    alignas(APART) Clock::duration rest{0};
    Clock::time_point rest_until{};
};

constexpr int64_t SMALL = 1 << 15;          // multiplications that are done sooner than a helper is told
constexpr int64_t LARGEST_CLAIM = 1 << 19;  // multiplications: some 20 microseconds for whoever waits for the last one

inline Crew& crew() {
    static Crew* all = [] {
#ifndef _WIN32
        // Helpers stay behind when a process forks, and with them whatever they have locked: the child works alone.
        pthread_atfork(nullptr, nullptr, [] { all = new Crew; });
#endif
        return new Crew;  // never deleted: helpers may outlive main
    }();
    return *all;
}

}  // namespace threads

// work(i) for i = 0 .. parts - 1, by the crew if that much work is worth it.
template <class Work> void share(int64_t parts, int64_t multiplications, const Work& work) {
    if (multiplications < threads::SMALL) {
        for (int64_t i = 0; i < parts; i++) work(i);
    } else {
        threads::crew().share(parts, std::max<int64_t>(1, threads::LARGEST_CLAIM * parts / multiplications), work);
    }
}
