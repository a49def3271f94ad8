"""Romanian nouns, adjectives and the small words around them, every form as it is written (comma-below ș and ț)."""

from __future__ import annotations

from typing import NamedTuple


class Noun(NamedTuple):
    """A noun in both languages; `oblique` is the genitive-dative with its article."""

    en: str
    en_plural: str
    kind: str
    gender: str  # m | f | n (masculine in the singular, feminine in the plural)
    one: str
    the_one: str
    many: str
    the_many: str
    oblique: str
    oblique_many: str

    def feminine(self, plural: bool) -> bool:
        """The gender that adjectives, articles and pronouns agree with."""
        return self.gender == "f" or (self.gender == "n" and plural)


# english, its plural if not in -s | gender, indefinite and definite singular, both plurals, genitive-dative of both
_NOUNS: dict[str, str] = {
    "child": """
        boy           | m băiat băiatul băieți băieții băiatului băieților
        girl          | f fată fata fete fetele fetei fetelor
        child children | m copil copilul copii copiii copilului copiilor
        pupil         | m elev elevul elevi elevii elevului elevilor
    """,
    "kin": """
        brother       | m frate fratele frați frații fratelui fraților
        sister        | f soră sora surori surorile surorii surorilor
        mother        | f mamă mama mame mamele mamei mamelor
        grandfather   | m bunic bunicul bunici bunicii bunicului bunicilor
        grandmother   | f bunică bunica bunici bunicile bunicii bunicilor
        friend        | m prieten prietenul prieteni prietenii prietenului prietenilor
    """,
    "adult": """
        teacher       | m profesor profesorul profesori profesorii profesorului profesorilor
        doctor        | m doctor doctorul doctori doctorii doctorului doctorilor
        neighbour     | m vecin vecinul vecini vecinii vecinului vecinilor
        baker         | m brutar brutarul brutari brutarii brutarului brutarilor
        fisherman fishermen | m pescar pescarul pescari pescarii pescarului pescarilor
        woman women   | f femeie femeia femei femeile femeii femeilor
        lady ladies   | f doamnă doamna doamne doamnele doamnei doamnelor
        queen         | f regină regina regine reginele reginei reginelor
    """,
    "animal": """
        dog           | m câine câinele câini câinii câinelui câinilor
        horse         | m cal calul cai caii calului cailor
        rabbit        | m iepure iepurele iepuri iepurii iepurelui iepurilor
        cat           | f pisică pisica pisici pisicile pisicii pisicilor
        bird          | f pasăre pasărea păsări păsările păsării păsărilor
        cow           | f vacă vaca vaci vacile vacii vacilor
        goat          | f capră capra capre caprele caprei caprelor
    """,
    "food": """
        apple         | n măr mărul mere merele mărului merelor
        egg           | n ou oul ouă ouăle oului ouălor
        potato potatoes | m cartof cartoful cartofi cartofii cartofului cartofilor
        pear          | f pară para pere perele perei perelor
        loaf loaves   | f pâine pâinea pâini pâinile pâinii pâinilor
        cake          | f prăjitură prăjitura prăjituri prăjiturile prăjiturii prăjiturilor
    """,
    "clothes": """
        coat          | n palton paltonul paltoane paltoanele paltonului paltoanelor
        shoe          | m pantof pantoful pantofi pantofii pantofului pantofilor
        dress dresses | f rochie rochia rochii rochiile rochiei rochiilor
        hat           | f pălărie pălăria pălării pălăriile pălăriei pălăriilor
        shirt         | f cămașă cămașa cămăși cămășile cămășii cămășilor
    """,
    "thing": """
        book          | f carte cartea cărți cărțile cărții cărților
        letter        | f scrisoare scrisoarea scrisori scrisorile scrisorii scrisorilor
        key           | f cheie cheia chei cheile cheii cheilor
        ball          | f minge mingea mingi mingile mingii mingilor
        flower        | f floare floarea flori florile florii florilor
        plate         | f farfurie farfuria farfurii farfuriile farfuriei farfuriilor
        glass glasses | n pahar paharul pahare paharele paharului paharelor
        pencil        | n creion creionul creioane creioanele creionului creioanelor
        phone         | n telefon telefonul telefoane telefoanele telefonului telefoanelor
        painting      | n tablou tabloul tablouri tablourile tabloului tablourilor
        clock         | n ceas ceasul ceasuri ceasurile ceasului ceasurilor
        car           | f mașină mașina mașini mașinile mașinii mașinilor
        chair         | n scaun scaunul scaune scaunele scaunului scaunelor
        table         | f masă masa mese mesele mesei meselor
        door          | f ușă ușa uși ușile ușii ușilor
        window        | f fereastră fereastra ferestre ferestrele ferestrei ferestrelor
    """,
    "place": """
        house         | f casă casa case casele casei caselor
        garden        | f grădină grădina grădini grădinile grădinii grădinilor
        kitchen       | f bucătărie bucătăria bucătării bucătăriile bucătăriei bucătăriilor
        school        | f școală școala școli școlile școlii școlilor
        church churches | f biserică biserica biserici bisericile bisericii bisericilor
        room          | f cameră camera camere camerele camerei camerelor
        forest        | f pădure pădurea păduri pădurile pădurii pădurilor
        street        | f stradă strada străzi străzile străzii străzilor
        park          | n parc parcul parcuri parcurile parcului parcurilor
        bridge        | n pod podul poduri podurile podului podurilor
        lake          | n lac lacul lacuri lacurile lacului lacurilor
        bed           | n pat patul paturi paturile patului paturilor
        tree          | m copac copacul copaci copacii copacului copacilor
        wall          | n zid zidul ziduri zidurile zidului zidurilor
    """,
}


def _noun(kind: str, line: str) -> Noun:
    english, romanian = (part.split() for part in line.split("|"))
    return Noun(english[0], english[1] if len(english) > 1 else f"{english[0]}s", kind, *romanian)


NOUNS: dict[str, Noun] = {
    noun.en: noun
    for kind, lines in _NOUNS.items()
    for noun in (_noun(kind, line) for line in lines.splitlines() if line.strip())
}

PEOPLE: tuple[str, ...] = ("child", "kin", "adult")

# masculine, feminine, masculine plural, feminine plural
ADJECTIVES: dict[str, tuple[str, str, str, str]] = {
    "big": ("mare", "mare", "mari", "mari"),
    "small": ("mic", "mică", "mici", "mici"),
    "new": ("nou", "nouă", "noi", "noi"),
    "old": ("vechi", "veche", "vechi", "vechi"),  # of things
    "old (living)": ("bătrân", "bătrână", "bătrâni", "bătrâne"),
    "young": ("tânăr", "tânără", "tineri", "tinere"),
    "tall": ("înalt", "înaltă", "înalți", "înalte"),
    "beautiful": ("frumos", "frumoasă", "frumoși", "frumoase"),
    "red": ("roșu", "roșie", "roșii", "roșii"),
    "white": ("alb", "albă", "albi", "albe"),
    "black": ("negru", "neagră", "negri", "negre"),
    "green": ("verde", "verde", "verzi", "verzi"),
    "yellow": ("galben", "galbenă", "galbeni", "galbene"),
    "blue": ("albastru", "albastră", "albaștri", "albastre"),
    "heavy": ("greu", "grea", "grei", "grele"),
    "good": ("bun", "bună", "buni", "bune"),
    "fresh": ("proaspăt", "proaspătă", "proaspeți", "proaspete"),
    "expensive": ("scump", "scumpă", "scumpi", "scumpe"),
    "clean": ("curat", "curată", "curați", "curate"),
    "dirty": ("murdar", "murdară", "murdari", "murdare"),
    "tired": ("obosit", "obosită", "obosiți", "obosite"),
    "happy": ("fericit", "fericită", "fericiți", "fericite"),
    "sad": ("trist", "tristă", "triști", "triste"),
    "sick": ("bolnav", "bolnavă", "bolnavi", "bolnave"),
    "hungry": ("flămând", "flămândă", "flămânzi", "flămânde"),
}
#: what is said of a kind of noun beside it
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "child": ("tall", "happy", "sad", "tired", "sick"),
    "kin": ("tired", "happy", "sad", "sick"),
    "adult": ("young", "old (living)", "tall", "happy", "tired", "sick"),
    "animal": ("big", "small", "black", "white", "old (living)", "hungry", "beautiful"),
    "food": ("big", "small", "good", "fresh", "expensive"),
    "clothes": ("new", "old", "red", "white", "black", "green", "yellow", "blue", "expensive", "clean", "dirty"),
    "thing": ("new", "old", "red", "white", "black", "green", "blue", "heavy", "beautiful", "expensive"),
    "place": ("big", "small", "new", "old", "white", "beautiful"),
}
#: what is said of a kind of noun behind a form of be
PREDICATES: dict[str, tuple[str, ...]] = {
    "child": ("tall", "happy", "sad", "tired", "sick", "hungry"),
    "kin": ("happy", "sad", "tired", "sick", "hungry"),
    "adult": ("young", "tall", "happy", "sad", "tired", "sick", "hungry"),
    "animal": ("big", "small", "black", "white", "hungry", "tired", "sick", "beautiful"),
    "food": ("big", "small", "good", "fresh", "expensive"),
    "clothes": ("new", "old", "red", "white", "black", "green", "yellow", "blue", "expensive", "clean", "dirty"),
    "thing": ("new", "old", "red", "white", "black", "blue", "heavy", "beautiful", "expensive", "clean", "dirty"),
    "place": ("big", "small", "new", "old", "white", "beautiful"),
}

# masculine or neuter, feminine; then the plurals
THIS: tuple[str, str, str, str] = ("acest", "această", "acești", "aceste")
THAT: tuple[str, str, str, str] = ("acel", "acea", "acei", "acele")
OWNERS: dict[str, tuple[str, str, str, str]] = {
    "my": ("meu", "mea", "mei", "mele"),
    "your": ("tău", "ta", "tăi", "tale"),
    "our": ("nostru", "noastră", "noștri", "noastre"),
    "his": ("lui", "lui", "lui", "lui"),
    "her": ("ei", "ei", "ei", "ei"),
    "their": ("lor", "lor", "lor", "lor"),
}
#: the article before a genitive that does not stand right behind its noun
GENITIVE_ARTICLE: tuple[str, str, str, str] = ("al", "a", "ai", "ale")
MANY: tuple[str, str, str, str] = ("", "", "mulți", "multe")
COUNTS: dict[str, tuple[str, str]] = {
    "two": ("doi", "două"),
    "three": ("trei", "trei"),
    "four": ("patru", "patru"),
    "five": ("cinci", "cinci"),
}
MEN: tuple[str, ...] = ("Ion", "Andrei", "Mihai", "Radu", "Victor")
WOMEN: dict[str, str] = {"Maria": "Mariei", "Ana": "Anei", "Elena": "Elenei", "Ioana": "Ioanei", "Irina": "Irinei"}


def agreeing(forms: tuple[str, str, str, str], feminine: bool, plural: bool) -> str:
    """The one of four forms that goes with a noun."""
    return forms[2 * plural + feminine]
