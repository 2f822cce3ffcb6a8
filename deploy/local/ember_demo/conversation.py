"""Two-turn conversations over a long system prompt of natural text, made from a seed: nothing to
download, and no two conversations share a prefix, because each opens with its own id.
"""

import random

NAMES = (
    "Tomas Reed",
    "Clara Holt",
    "Edwin Marsh",
    "Ruth Calloway",
    "Piet Janssen",
    "Agnes Thorne",
    "Samuel Okoro",
    "Ines Duarte",
    "Walter Finch",
    "Greta Lind",
    "Amir Haddad",
    "Nora Quill",
    "Jonas Berg",
    "Helen Carver",
)
TOWNS = (
    "Lowick",
    "Saltmere",
    "Harrow Bay",
    "Penrith Sound",
    "Eastholm",
    "Grayport",
    "Westermouth",
    "Kilbride Head",
)
PLACES = (
    "harbour office",
    "old boat shed",
    "fish market",
    "rope walk",
    "north pier",
    "customs house",
    "net loft",
    "signal station",
    "chandler's shop",
    "town library",
    "sailing school",
    "ice house",
    "weather tower",
)
THINGS = (
    "ledger",
    "brass bell",
    "spare anchor",
    "tide table",
    "storm lantern",
    "signal flags",
    "chart cabinet",
    "lifeboat key",
    "rain gauge",
    "barometer",
    "visitors' book",
    "long rope",
    "first-aid chest",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIMES = (
    "at dawn",
    "before noon",
    "at half past two",
    "after the evening tide",
    "at seven in the evening",
    "at low water",
)
WEATHER = (
    "when the fog comes in",
    "in a westerly gale",
    "on calm days",
    "during the spring tides",
    "after heavy rain",
    "when ice forms in the inner basin",
    "in the first week of autumn",
)
REASONS = (
    "because the old one was lost in a storm",
    "so that nobody has to search in the dark",
    "as the insurers asked for it",
    "which visitors often forget",
    "although the council once voted against it",
    "and a copy goes to the county archive",
    "since the great flood of 1953",
    "to the delight of the children",
)

SENTENCES = (
    "{name} looks after the {thing} in the {place}, {reason}.",
    "Every {day} {time} the {place} opens for anyone who wants to see the {thing}.",
    "{weather_cap}, boats longer than {number} metres wait outside until {name} gives the sign.",
    "The {place} was built in {year} and is rented to {name} for {number} crowns a month.",
    "Please do not move the {thing} without telling {name}, who signs for it on {day}s.",
    "A new {thing} was bought in {year}, {reason}.",
    "The walk from the {place} to the {place2} takes {number} minutes, more {weather}.",
    "{name} and {name2} share the night watch on {day}s and write down wind, tide and ships.",
    "If the {thing} is missing, ask first in the {place2}, then in the {place}.",
    "School groups meet {name} near the {place} {time}; at most {number} pupils may come at once.",
    "In {year} the crew of a coaster slept in the {place} for {number} nights, {reason}.",
    "Repairs to the {place} are paid from the fund that {name} keeps together with {name2}.",
    "The rule about the {thing} was written by {name2} in {year} and has been changed only once.",
    "{weather_cap}, the bell is rung {number} times and the {place} stays lit all night.",
    "Letters for {name} are left at the {place2} and collected on {day} {time}.",
    "Dogs are welcome in the {place}, but not in the {place2}, {reason}.",
)

QUESTIONS = (
    ("Who keeps the lighthouse?", "And who paints the boats?"),
    ("Who paints the boats?", "Where is the spare key of the lighthouse kept?"),
    ("Where is the spare key of the lighthouse kept?", "Who keeps the lighthouse?"),
    ("What is the name of the town?", "In which year was the lighthouse built?"),
)


class Conversation:
    """messages_one() asks the first question; messages_two(answer) repeats all of that and asks the
    second.
    """

    def __init__(self, identity, words):
        """identity: unique, deterministic; words: about how many the system prompt shall have (1.3
        tokens each).
        """
        self.identity = identity
        rng = random.Random(identity)
        self._system = (
            f"Conversation {rng.getrandbits(48):012x}. {self._opening(rng)} {handbook(rng, words)}"
        )
        self._first, self._second = rng.choice(QUESTIONS)

    @staticmethod
    def _opening(rng):
        keeper, painter = rng.sample(NAMES, 2)
        return (
            f"You are the guide of the harbour town of {rng.choice(TOWNS)}. Answer in one short "
            f"sentence, from the handbook "
            f"below. The lighthouse was built in {rng.randint(1820, 1910)}. {keeper} keeps the "
            f"lighthouse. {painter} paints "
            f"the boats. The spare key of the lighthouse is kept in the {rng.choice(PLACES)}. The "
            f"handbook:"
        )

    def messages_one(self):
        return [
            {"role": "system", "content": self._system},
            {"role": "user", "content": self._first},
        ]

    def messages_two(self, first_answer):
        return self.messages_one() + [
            {"role": "assistant", "content": first_answer},
            {"role": "user", "content": self._second},
        ]


def handbook(rng, words):
    parts, count = [], 0
    while count < words:
        sentence = _sentence(rng)
        parts.append(sentence)
        count += len(sentence.split())
        if rng.random() < 0.15:
            parts.append("\n")
    return " ".join(parts)


def _sentence(rng):
    name, name2 = rng.sample(NAMES, 2)
    place, place2 = rng.sample(PLACES, 2)
    weather = rng.choice(WEATHER)
    return rng.choice(SENTENCES).format(
        name=name,
        name2=name2,
        place=place,
        place2=place2,
        thing=rng.choice(THINGS),
        day=rng.choice(DAYS),
        time=rng.choice(TIMES),
        weather=weather,
        weather_cap=weather[0].upper() + weather[1:],
        reason=rng.choice(REASONS),
        number=rng.randint(3, 48),
        year=rng.randint(1870, 1995),
    )
