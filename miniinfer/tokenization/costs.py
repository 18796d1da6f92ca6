"""What texts cost in tokens: the same sentence in many languages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from miniinfer.errors import BadInputError
from miniinfer.models.tokenizer import Tokenizer

# One meaning: the weather is nice today, and we are going to the park with our friends.
SAMPLES = {
    "English": "The weather is nice today, and we are going to the park with our friends.",
    "German": "Das Wetter ist heute schön, und wir gehen mit unseren Freunden in den Park.",
    "French": "Il fait beau aujourd'hui, et nous allons au parc avec nos amis.",
    "Spanish": "Hoy hace buen tiempo y vamos al parque con nuestros amigos.",
    "Turkish": "Bugün hava güzel ve arkadaşlarımızla parka gidiyoruz.",
    "Vietnamese": "Hôm nay thời tiết đẹp và chúng tôi đi công viên với bạn bè.",
    "Swahili": "Leo hali ya hewa ni nzuri na tunaenda bustanini pamoja na marafiki zetu.",
    "Greek": "Σήμερα ο καιρός είναι καλός και πηγαίνουμε στο πάρκο με τους φίλους μας.",
    "Russian": "Сегодня хорошая погода, и мы идём в парк с нашими друзьями.",
    "Hebrew": "מזג האוויר נעים היום ואנחנו הולכים לפארק עם החברים שלנו.",
    "Arabic": "الطقس جميل اليوم وسنذهب إلى الحديقة مع أصدقائنا.",
    "Hindi": "आज मौसम अच्छा है और हम अपने दोस्तों के साथ पार्क जा रहे हैं।",
    "Thai": "วันนี้อากาศดี และเรากำลังจะไปสวนสาธารณะกับเพื่อน ๆ",
    "Chinese": "今天天气很好，我们和朋友们一起去公园。",
    "Japanese": "今日は天気が良く、私たちは友達と公園へ行きます。",
    "Korean": "오늘은 날씨가 좋아서 우리는 친구들과 함께 공원에 갑니다.",
}


@dataclass(frozen=True)
class TextCost:
    """A text and its sizes; characters are code points, bytes are of UTF-8."""

    name: str
    text: str
    tokens: int

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def bytes(self) -> int:
        return len(self.text.encode())

    @property
    def per_byte(self) -> float:
        return self.tokens / self.bytes if self.text else 0.0

    @property
    def per_character(self) -> float:
        return self.tokens / self.characters if self.text else 0.0


def costs_of(tokenizer: Tokenizer, texts: Iterable[tuple[str, str]]) -> tuple[list[TextCost], list[str]]:
    """The costs of (name, text), the cheapest first, and a sentence for each text that the vocabulary cannot write."""
    costs, refusals = [], []
    for name, text in texts:
        try:
            costs.append(TextCost(name, text, len(tokenizer.encode(text, parse_special=False))))
        except BadInputError as error:
            refusals.append(f"{name}: {error}")
    return sorted(costs, key=lambda cost: (cost.tokens, cost.name)), refusals
