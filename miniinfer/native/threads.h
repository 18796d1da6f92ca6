// A few threads that share the parts of one job. `share(n, work)` calls work(i) for i = 0 .. n - 1 and returns when all
// are done.
//
// Parts are claimed one at a time, by the caller too. So a helper that sleeps, or waits for a core beside another busy
// program, costs nothing: the caller simply does its parts. Only a helper that loses its core in the middle of a part is
// waited for; if that lasts, helpers are left out for a while, longer each time.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace threads {

using Clock = std::chrono::steady_clock;
constexpr auto SPIN = std::chrono::microseconds(150);     // the gap between two stages is some 10
constexpr auto TOO_LONG = std::chrono::microseconds(400);  // to wait for one part: a helper has lost its core
constexpr auto LEAST_REST = std::chrono::milliseconds(20), LONGEST_REST = std::chrono::milliseconds(2000);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

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

    template <class Work> void share(int64_t parts, const Work& work) {
        std::unique_lock<std::mutex> lock(owner, std::defer_lock);
        bool alone = parts < 2 || active.load(std::memory_order_relaxed) == 0 || !lock.try_lock();
        if (alone || Clock::now() < rest_until) {
            for (int64_t i = 0; i < parts; i++) work(i);
            return;
        }
        run = [](const void* w, int64_t i) { (*static_cast<const Work*>(w))(i); };
        context = &work;
        done.store(0, std::memory_order_relaxed);
        round++;
        ticket.store(Ticket(round, parts).bits);  // from here on parts can be claimed
        if (sleepers.load() > 0) {
            std::lock_guard<std::mutex> guard(bed);
            wake.notify_all();
        }
        while (claim_and_work()) {
        }
        if (done.load(std::memory_order_acquire) < parts) wait_for(parts);
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
        do {
            if (Ticket(seen).left() == 0) return false;
        } while (!ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel));
        run(context, Ticket(seen).left() - 1);  // these two cannot change before this part is done
        done.fetch_add(1, std::memory_order_release);
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
        for (;;) {
            auto began = Clock::now();
            while (number >= active.load(std::memory_order_relaxed) || !claim_and_work()) {
                for (int i = 0; i < 32; i++) pause();
                if (Clock::now() - began > SPIN) {
                    sleep(number);
                    began = Clock::now();
                }
            }
        }
    }

    void sleep(int number) {
        std::unique_lock<std::mutex> guard(bed);
        sleepers.fetch_add(1);
        if (number >= active.load() || Ticket(ticket.load()).left() == 0) wake.wait(guard);
        sleepers.fetch_sub(1);
    }

    std::mutex owner, bed;
    std::condition_variable wake;
    std::vector<std::thread> helpers;
    std::atomic<int> active{0}, sleepers{0};
    std::atomic<uint64_t> ticket{0};
    std::atomic<int64_t> done{0};
    uint32_t round = 0;
    void (*run)(const void*, int64_t) = nullptr;
    const void* context = nullptr;
    Clock::duration rest{0};
    Clock::time_point rest_until{};
};

constexpr int64_t SMALL = 1 << 15;  // multiplications that are done sooner than a helper is told

inline Crew& crew() {
    static auto* all = new Crew;  // never deleted: helpers may outlive main
    return *all;
}

}  // namespace threads

// work(i) for i = 0 .. parts - 1, by the crew if that much work is worth it.
template <class Work> void share(int64_t parts, int64_t multiplications, const Work& work) {
    if (multiplications < threads::SMALL) {
        for (int64_t i = 0; i < parts; i++) work(i);
    } else {
        threads::crew().share(parts, work);
    }
}
