"""Verbs in both languages with the forms that tenses are made of, and the unstressed pronouns around them."""

from __future__ import annotations

from typing import NamedTuple

SELF, YOU, HE, WE, THEY = range(5)  # persons: `you` is one person


class Verb(NamedTuple):
    """A verb; `present` is by person, `subjunctive` is the third person's (the others are the present's)."""

    en: str
    third: str
    past: str
    ing: str
    particle: str  # English preposition before the object
    infinitive: str
    present: tuple[str, ...]
    participle: str
    subjunctive: str
    reflexive: bool

    def after_sa(self, person: int) -> str:
        """The form behind `să`."""
        return self.subjunctive if person in (HE, THEY) else self.present[person]


# english base, past, -ing form, particle | infinitive | present: eu tu el noi ei | participle | subjunctive el
_VERBS = """
    read read reading         | citi     | citesc citești citește citim citesc               | citit     | citească
    write wrote writing       | scrie    | scriu scrii scrie scriem scriu                    | scris     | scrie
    buy bought buying         | cumpăra  | cumpăr cumperi cumpără cumpărăm cumpără           | cumpărat  | cumpere
    sell sold selling         | vinde    | vând vinzi vinde vindem vând                      | vândut    | vândă
    eat ate eating            | mânca    | mănânc mănânci mănâncă mâncăm mănâncă             | mâncat    | mănânce
    break broke breaking      | sparge   | sparg spargi sparge spargem sparg                 | spart     | spargă
    hide hid hiding           | ascunde  | ascund ascunzi ascunde ascundem ascund            | ascuns    | ascundă
    lose lost losing          | pierde   | pierd pierzi pierde pierdem pierd                 | pierdut   | piardă
    find found finding        | găsi     | găsesc găsești găsește găsim găsesc               | găsit     | găsească
    wash washed washing       | spăla    | spăl speli spală spălăm spală                     | spălat    | spele
    draw drew drawing         | desena   | desenez desenezi desenează desenăm desenează      | desenat   | deseneze
    open opened opening       | deschide | deschid deschizi deschide deschidem deschid       | deschis   | deschidă
    close closed closing      | închide  | închid închizi închide închidem închid            | închis    | închidă
    repair repaired repairing | repara   | repar repari repară reparăm repară                | reparat   | repare
    choose chose choosing     | alege    | aleg alegi alege alegem aleg                      | ales      | aleagă
    have had -                | avea     | am ai are avem au                                 | avut      | aibă
    want wanted -             | vrea     | vreau vrei vrea vrem vor                          | vrut      | vrea
    see saw -                 | vedea    | văd vezi vede vedem văd                           | văzut     | vadă
    help helped helping       | ajuta    | ajut ajuți ajută ajutăm ajută                     | ajutat    | ajute
    invite invited inviting   | invita   | invit inviți invită invităm invită                | invitat   | invite
    call called calling       | suna     | sun suni sună sunăm sună                          | sunat     | sune
    wait waited waiting for   | aștepta  | aștept aștepți așteaptă așteptăm așteaptă         | așteptat  | aștepte
    look looked looking for   | căuta    | caut cauți caută căutăm caută                     | căutat    | caute
    listen listened listening to | asculta | ascult asculți ascultă ascultăm ascultă         | ascultat  | asculte
    give gave giving          | da       | dau dai dă dăm dau                                | dat       | dea
    send sent sending         | trimite  | trimit trimiți trimite trimitem trimit            | trimis    | trimită
    show showed showing       | arăta    | arăt arăți arată arătăm arată                     | arătat    | arate
    bring brought bringing    | aduce    | aduc aduci aduce aducem aduc                      | adus      | aducă
    thank thanked thanking    | mulțumi  | mulțumesc mulțumești mulțumește mulțumim mulțumesc | mulțumit | mulțumească
    sleep slept sleeping      | dormi    | dorm dormi doarme dormim dorm                     | dormit    | doarmă
    sing sang singing         | cânta    | cânt cânți cântă cântăm cântă                     | cântat    | cânte
    run ran running           | alerga   | alerg alergi aleargă alergăm aleargă              | alergat   | alerge
    work worked working       | lucra    | lucrez lucrezi lucrează lucrăm lucrează           | lucrat    | lucreze
    laugh laughed laughing    | râde     | râd râzi râde râdem râd                           | râs       | râdă
    cry cried crying          | plânge   | plâng plângi plânge plângem plâng                 | plâns     | plângă
    dance danced dancing      | dansa    | dansez dansezi dansează dansăm dansează           | dansat    | danseze
    play played playing       | se juca  | joc joci joacă jucăm joacă                        | jucat     | joace
    rest rested resting       | se odihni | odihnesc odihnești odihnește odihnim odihnesc    | odihnit   | odihnească
"""
_THIRD = {"have": "has", "wash": "washes", "cry": "cries"}


def _verb(line: str) -> Verb:
    english, infinitive, present, participle, subjunctive = (part.split() for part in line.split("|"))
    base, past, ing, particle = [*english, ""][:4]
    third = _THIRD.get(base, f"{base}s")
    return Verb(
        base,
        third,
        past,
        "" if ing == "-" else ing,
        particle,
        infinitive[-1],
        tuple(present),
        participle[0],
        subjunctive[0],
        infinitive[0] == "se",
    )


VERBS: dict[str, Verb] = {verb.en: verb for verb in (_verb(line) for line in _VERBS.splitlines() if line.strip())}

#: verb -> its objects: kinds of nouns, or nouns
OBJECTS: dict[str, tuple[str, ...]] = {
    "read": ("book", "letter"),
    "write": ("book", "letter"),
    "buy": ("food", "clothes", "book", "flower", "ball", "phone", "painting", "clock", "car", "chair", "table"),
    "sell": ("food", "clothes", "animal", "book", "flower", "phone", "painting", "clock", "car", "house"),
    "eat": ("food",),
    "break": ("glass", "plate", "window"),
    "hide": ("key", "letter", "ball", "pencil", "phone", "painting"),
    "lose": ("key", "letter", "ball", "pencil", "phone", "hat", "shoe", "book"),
    "find": ("key", "letter", "ball", "pencil", "phone", "hat", "shoe", "animal"),
    "wash": ("plate", "glass", "car", "shirt", "dress", "window", "apple", "pear", "potato"),
    "draw": ("house", "tree", "flower", "animal", "church", "bridge"),
    "open": ("door", "window", "letter", "book"),
    "close": ("door", "window", "book"),
    "repair": ("car", "clock", "chair", "phone", "table", "door", "bridge", "wall"),
    "choose": ("clothes", "book", "painting", "flower", "cake"),
    "have": ("animal", "clothes", "book", "ball", "phone", "clock", "car", "house", "garden"),
    "want": ("animal", "food", "clothes", "book", "ball", "phone", "car"),
    "see": ("animal", "car", "house", "church", "bridge", "lake", "painting"),
}
GIFTS: tuple[str, ...] = ("food", "book", "letter", "key", "ball", "flower", "pencil", "painting", "hat", "coat")
GIVING: tuple[str, ...] = ("give", "send", "show", "bring")
MEETING: tuple[str, ...] = ("see", "help", "invite", "call", "wait", "look", "listen")
#: intransitive verb -> kinds that do it
DOING: dict[str, tuple[str, ...]] = {
    "sleep": ("child", "kin", "adult", "animal"),
    "run": ("child", "kin", "animal"),
    "rest": ("kin", "adult", "animal"),
    "play": ("child",),
    "sing": ("child", "kin", "adult"),
    "work": ("kin", "adult"),
    "laugh": ("child", "kin", "adult"),
    "cry": ("child", "kin"),
    "dance": ("child", "kin", "adult"),
}

PERFECT: tuple[str, ...] = ("am", "ai", "a", "am", "au")
FUTURE: tuple[str, ...] = ("voi", "vei", "va", "vom", "vor")
BE: dict[str, tuple[str, ...]] = {
    "present": ("sunt", "ești", "este", "suntem", "sunt"),
    "past": ("eram", "erai", "era", "eram", "erau"),
    "future": ("voi fi", "vei fi", "va fi", "vom fi", "vor fi"),
}


class Clitic(NamedTuple):
    """An unstressed pronoun: on its own, and joined to the auxiliary of the perfect."""

    alone: str
    joined: str  # before the auxiliary; one that starts with a hyphen stands behind the participle


FEMININE = Clitic("o", "-o")
ACCUSATIVE: dict[str, Clitic] = {
    "me": Clitic("mă", "m-"),
    "you": Clitic("te", "te-"),
    "him": Clitic("îl", "l-"),
    "her": FEMININE,
    "us": Clitic("ne", "ne-"),
    "them": Clitic("îi", "i-"),
}
THEM_FEMININE = Clitic("le", "le-")
DATIVE: dict[str, Clitic] = {
    "me": Clitic("îmi", "mi-"),
    "you": Clitic("îți", "ți-"),
    "him": Clitic("îi", "i-"),
    "her": Clitic("îi", "i-"),
    "us": Clitic("ne", "ne-"),
    "them": Clitic("le", "le-"),
}
REFLEXIVE: tuple[Clitic, ...] = (
    Clitic("mă", "m-"),
    Clitic("te", "te-"),
    Clitic("se", "s-"),
    Clitic("ne", "ne-"),
    Clitic("se", "s-"),
)
