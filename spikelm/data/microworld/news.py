"""People, towns and trades of short news stories, and the sentences around what happens."""

from __future__ import annotations

MEN: tuple[str, ...] = ("Adam", "Carl", "David", "Felix", "Henry", "Jonas", "Karim", "Liam", "Nico", "Oscar")
WOMEN: tuple[str, ...] = ("Alice", "Bianca", "Clara", "Diana", "Elsa", "Fiona", "Greta", "Helen", "Julia", "Nora")
SURNAMES: tuple[str, ...] = (
    "Adler",
    "Brook",
    "Costa",
    "Dumont",
    "Ekman",
    "Farrow",
    "Grant",
    "Hale",
    "Jansen",
    "Keller",
    "Lund",
    "Moss",
    "Novak",
    "Olsen",
    "Petrov",
    "Quinn",
    "Rossi",
    "Silva",
    "Turner",
    "Weber",
)
TOWNS: tuple[str, ...] = (
    "Aldmoor",
    "Brinley",
    "Castow",
    "Denholt",
    "Elmsby",
    "Farlow",
    "Garwick",
    "Holmere",
    "Kelton",
    "Lowdale",
    "Marbeck",
    "Norcott",
    "Penfold",
    "Ravenby",
    "Selwick",
    "Tarnley",
)
#: trade -> how it is told without its name
TRADES: dict[str, str] = {
    "baker": "bakes bread for a living",
    "barber": "cuts hair six days a week",
    "carpenter": "makes tables and chairs",
    "cook": "prepares meals in a hotel",
    "doctor": "treats the sick",
    "driver": "is at the wheel of a bus all day",
    "farmer": "keeps cows and grows wheat",
    "gardener": "plants flowers in parks",
    "librarian": "lends books to readers",
    "painter": "makes portraits in oil",
    "plumber": "mends pipes and taps",
    "potter": "shapes bowls out of clay",
    "sailor": "spends the year at sea",
    "singer": "performs songs on stage",
    "tailor": "sews coats and trousers",
    "teacher": "gives lessons at a school",
}
OPENINGS: tuple[str, ...] = (
    "It was a cold {day} morning.",
    "Nobody had expected much of this {day}.",
    "The news spread quickly on {day}.",
    "People will talk about this {day} for years.",
    "It all began on a rainy {day}.",
)
DAYS: tuple[str, ...] = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: tuple[str, ...] = ("January", "March", "April", "June", "August", "October")
#: a trade, by name or by what is done, and a home
INTRODUCTIONS: tuple[str, ...] = (
    "{full}, who {trade}, lives in {town}.",
    "{full} {trade}; home is a small house in {town}.",
    "{full} was born in {town} and {trade}.",
)
REMARKS: tuple[str, ...] = (
    "A crowd had gathered by then.",
    "The mayor did not want to comment.",
    "Neighbours said they were surprised.",
    "Photographs soon went round the country.",
    "It took some time before people understood.",
)
