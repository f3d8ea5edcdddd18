"""Small repositories as people have them, in several languages, and what to ask of them."""

from __future__ import annotations

BACKUP = {
    "backup.py": '''"""Nightly copies of a folder, of which old ones are thinned out."""

import datetime
import hashlib
import shutil
import tarfile
from pathlib import Path

KEEP_DAILY = 7
KEEP_WEEKLY = 5


def checksum(archive: Path, block_size: int = 65536) -> str:
    """Hash an archive block by block so that it never has to fit into memory."""
    digest = hashlib.sha256()
    with archive.open("rb") as stream:
        while block := stream.read(block_size):
            digest.update(block)
    return digest.hexdigest()


def pack(source: Path, destination: Path, compression: str = "gz") -> Path:
    """Write all files below a folder into one compressed archive named after today."""
    stamp = datetime.date.today().isoformat()
    target = destination / f"{source.name}-{stamp}.tar.{compression}"
    with tarfile.open(target, f"w:{compression}") as archive:
        archive.add(source, arcname=source.name)
    return target


def thin_out(destination: Path, dry_run: bool = False) -> list[Path]:
    """Delete the archives that neither the daily nor the weekly allowance covers."""
    archives = sorted(destination.glob("*.tar.*"), reverse=True)
    mondays = [one for one in archives if is_monday(one)]
    doomed = [one for one in archives[KEEP_DAILY:] if one not in mondays[:KEEP_WEEKLY]]
    for victim in doomed:
        if not dry_run:
            victim.unlink()
    return doomed


def is_monday(archive: Path) -> bool:
    # The date is the last part of the name, before the endings.
    stamp = archive.name.split(".")[0][-10:]
    return datetime.date.fromisoformat(stamp).weekday() == 0


def ensure_space(destination: Path, needed_bytes: int) -> None:
    """Refuse to begin when the disk has less room than the previous archive took."""
    free = shutil.disk_usage(destination).free
    if free < needed_bytes:
        raise OSError(f"disk almost full: {free} of {needed_bytes} bytes")
''',
}

LIMITER = {
    "limiter/bucket.go": """package limiter

import (
	"sync"
	"time"
)

// Bucket holds the tokens of one client. It refills at a steady rate up to its capacity.
type Bucket struct {
	mu       sync.Mutex
	tokens   float64
	capacity float64
	refill   float64
	touched  time.Time
}

// NewBucket returns a full bucket.
func NewBucket(capacity, refillPerSecond float64) *Bucket {
	full := Bucket{tokens: capacity, capacity: capacity, refill: refillPerSecond}
	full.touched = time.Now()
	return &full
}

// Take removes a token and reports whether there was one left for this request.
func (b *Bucket) Take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	elapsed := now.Sub(b.touched).Seconds()
	b.touched = now
	b.tokens = min(b.capacity, b.tokens+elapsed*b.refill)
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
""",
    "middleware.go": """package main

import (
	"net"
	"net/http"
	"sync"
	"time"

	"example.org/gate/limiter"
)

type gate struct {
	mu      sync.Mutex
	clients map[string]*limiter.Bucket
	burst   float64
	rate    float64
}

// wrap answers 429 with a Retry-After header once a client has used up its allowance.
func (g *gate) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "malformed remote address", http.StatusBadRequest)
			return
		}
		if !g.bucketOf(host).Take(time.Now()) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (g *gate) bucketOf(host string) *limiter.Bucket {
	g.mu.Lock()
	defer g.mu.Unlock()
	bucket, known := g.clients[host]
	if !known {
		bucket = limiter.NewBucket(g.burst, g.rate)
		g.clients[host] = bucket
	}
	return bucket
}
""",
    "main.go": """package main

import (
	"flag"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"

	"example.org/gate/limiter"
)

func main() {
	upstream := flag.String("upstream", "http://localhost:8080", "where allowed requests go")
	listen := flag.String("listen", ":9000", "the address to listen on")
	burst := flag.Float64("burst", 20, "requests a client may send at once")
	rate := flag.Float64("rate", 5, "requests a second after that")
	flag.Parse()
	target, err := url.Parse(*upstream)
	if err != nil {
		log.Fatalf("the upstream is no address: %v", err)
	}
	g := &gate{clients: map[string]*limiter.Bucket{}, burst: *burst, rate: *rate}
	proxy := httputil.NewSingleHostReverseProxy(target)
	log.Fatal(http.ListenAndServe(*listen, g.wrap(proxy)))
}
""",
}

INVOICES = {
    "package.json": '{\n  "name": "billing",\n  "scripts": {"build": "tsc", "test": "vitest"}\n}\n',
    "README.md": "# Billing\n\nWrites invoices for the hours that freelancers logged.\n",
    "db/schema.sql": """CREATE TABLE customer (
    id integer PRIMARY KEY,
    name text NOT NULL,
    vat_number text,
    country char(2) NOT NULL
);

CREATE TABLE invoice (
    id integer PRIMARY KEY,
    customer_id integer NOT NULL REFERENCES customer,
    issued date NOT NULL,
    due date NOT NULL,
    paid_at timestamptz
);
""",
    "db/overdue.sql": """-- Invoices whose due date has passed without a payment, the oldest first.
SELECT i.id, c.name, i.due
FROM invoice AS i
JOIN customer AS c ON c.id = i.customer_id
WHERE i.paid_at IS NULL AND i.due < current_date
ORDER BY i.due;
""",
    "src/money.ts": """/** Amounts are whole cents, as fractions of them cannot be paid. */
export type Cents = number;

/** Round half to even, the way accountants expect of many small amounts. */
export function roundHalfEven(amount: number): Cents {
  const floor = Math.floor(amount);
  const rest = amount - floor;
  if (rest !== 0.5) return Math.round(amount);
  return floor % 2 === 0 ? floor : floor + 1;
}

export function format(amount: Cents, currency = "EUR", locale = "de-DE"): string {
  return new Intl.NumberFormat(locale, { style: "currency", currency }).format(amount / 100);
}
""",
    "src/tax.ts": """import { Cents, roundHalfEven } from "./money";

const STANDARD_RATE: Record<string, number> = { DE: 0.19, FR: 0.2, AT: 0.2 };

/** Business customers in another member state owe the tax themselves. */
export function isReverseCharge(country: string, vatNumber?: string): boolean {
  return country !== "DE" && vatNumber !== undefined;
}

export function taxOn(net: Cents, country: string, vatNumber?: string): Cents {
  if (isReverseCharge(country, vatNumber)) return 0;
  const rate = STANDARD_RATE[country];
  if (rate === undefined) throw new Error(`no rate for ${country}`);
  return roundHalfEven(net * rate);
}
""",
    "src/timesheet.ts": """export interface Entry {
  day: string;
  minutes: number;
  project: string;
  billable: boolean;
}

/** Add up the minutes of each project that may be charged to the client. */
export function billableMinutes(entries: Entry[]): Map<string, number> {
  const totals = new Map<string, number>();
  for (const entry of entries) {
    if (!entry.billable) continue;
    totals.set(entry.project, (totals.get(entry.project) ?? 0) + entry.minutes);
  }
  return totals;
}
""",
    "src/invoice.ts": """import { Cents, roundHalfEven } from "./money";
import { taxOn } from "./tax";
import { billableMinutes, Entry } from "./timesheet";

export interface Line {
  text: string;
  net: Cents;
}

export function draft(entries: Entry[], hourlyRate: Cents): Line[] {
  return [...billableMinutes(entries)].map(([project, minutes]) => ({
    text: `${project}, ${minutes} min`,
    net: roundHalfEven((minutes / 60) * hourlyRate),
  }));
}

export function gross(lines: Line[], country: string, vatNumber?: string): Cents {
  const net = lines.reduce((sum, line) => sum + line.net, 0);
  return net + taxOn(net, country, vatNumber);
}

/** Numbers run without gaps within a year, which the tax office insists on. */
export function nextNumber(previous: string | undefined, year: number): string {
  const [lastYear, counter] = (previous ?? "0-0").split("-").map(Number);
  return `${year}-${lastYear === year ? counter + 1 : 1}`;
}
""",
    "src/reminder.ts": """import { Cents, format } from "./money";

const GRACE_DAYS = 14;

/** The tone gets firmer with each letter, and the third one announces a fee. */
export function reminder(customer: string, open: Cents, timesReminded: number): string {
  const tone = ["may we remind you", "we still await", "for the last time"][timesReminded];
  if (tone === undefined) throw new Error("hand over to the collection agency");
  return `Dear ${customer}, ${tone} the payment of ${format(open)}.`;
}

export function isOverdue(due: Date, today: Date): boolean {
  return today.getTime() - due.getTime() > GRACE_DAYS * 86_400_000;
}
""",
    "test/money.test.ts": """import { expect, test } from "vitest";
import { roundHalfEven } from "../src/money";

test("halves go to the even neighbour", () => {
  expect(roundHalfEven(2.5)).toBe(2);
  expect(roundHalfEven(3.5)).toBe(4);
});
""",
}

_PORTS = {
    "tides": ("high_water", "Interpolate between the tables of two neighbouring gauges."),
    "berths": ("assign_berth", "Give the longest vessel the deepest berth that is still free."),
    "pilots": ("next_pilot", "Call the pilot whose rest period ended first."),
    "cargo": ("stow", "Heavy containers go to the bottom, reefers next to a socket."),
    "customs": ("declare", "Hold back every container whose seal does not match its papers."),
    "cranes": ("schedule_crane", "Never let two gantries reach over the same hatch."),
    "fees": ("harbour_dues", "Charge by gross tonnage, with a rebate for shore power."),
    "weather": ("may_enter", "Close the fairway when gusts exceed the limit of the tugs."),
}
_HARBOUR_BODIES = {
    "tides": "    before, after = gauges[0], gauges[1]\n"
    "    fraction = (moment - before.moment) / (after.moment - before.moment)\n"
    "    return before.level + fraction * (after.level - before.level)\n",
    "berths": "    for vessel in sorted(arrivals, key=lambda one: -one.length):\n"
    "        quay = max(free, key=lambda one: one.draught_limit, default=None)\n"
    '        yield vessel, quay or "anchorage"\n',
    "pilots": "    rested = [one for one in roster if now - one.off_duty >= MIN_REST]\n"
    "    return min(rested, key=lambda one: one.off_duty)\n",
    "cargo": "    for box in sorted(manifest, key=lambda one: -one.weight):\n"
    '        slot = bay.socket_slot() if box.kind == "reefer" else bay.lowest_slot()\n'
    "        bay.place(box, slot)\n",
    "customs": "    return [\n"
    '        box for box in manifest if box.seal != papers.get(box.number, "missing")\n'
    "    ]\n",
    "cranes": "    taken = {job.hatch + side for job in jobs for side in (-1, 0, 1)}\n"
    "    return next(one for one in hatches if one not in taken)\n",
    "fees": "    rebate = 0.1 if plugged_in else 0.0\n"
    "    return round(tonnage * RATE_PER_TON * (1 - rebate), 2)\n",
    "weather": "    if visibility_nm < 0.5:\n"
    '        return "fog signal"\n'
    "    return max(gusts) <= tug_limit_knots\n",
}
_HARBOUR_PARAMETERS = {
    "tides": "gauges, moment",
    "berths": "arrivals, free",
    "pilots": "roster, now",
    "cargo": "manifest, bay",
    "customs": "manifest, papers",
    "cranes": "jobs, hatches",
    "fees": "tonnage, plugged_in",
    "weather": "gusts, visibility_nm, tug_limit_knots",
}
HARBOUR = {
    **{
        f"harbour/{name}.py": f"def {function}({_HARBOUR_PARAMETERS[name]}):\n"
        f'    """{text}"""\n{_HARBOUR_BODIES[name]}'
        for name, (function, text) in _PORTS.items()
    },
    "harbour/__init__.py": '"""Runs a small commercial harbour."""\n',
    **{
        f"tests/test_{name}.py": f"from harbour.{name} import {function}\n\n\n"
        f"def test_{name}():\n    assert {function} is not None\n"
        for name, (function, _) in list(_PORTS.items())[:5]
    },
    "web/map.js": """// Draws each vessel as an arrow that points to where it is heading.
export function drawVessel(canvas, vessel) {
  const pen = canvas.getContext("2d");
  pen.save();
  pen.translate(vessel.x, vessel.y);
  pen.rotate((vessel.heading * Math.PI) / 180);
  pen.fillText("^", 0, 0);
  pen.restore();
}
""",
    "web/feed.js": """const RECONNECT_MS = 3000;

// Opens the position feed again after a pause whenever the antenna drops it.
export function follow(url, onPosition) {
  const socket = new WebSocket(url);
  socket.onmessage = (event) => onPosition(JSON.parse(event.data));
  socket.onclose = () => setTimeout(() => follow(url, onPosition), RECONNECT_MS);
}
""",
    "web/index.html": '<!doctype html>\n<title>Harbour</title>\n<canvas id="map"></canvas>\n',
    "sql/vessel.sql": "CREATE TABLE vessel (\n    imo integer PRIMARY KEY,\n    flag text,\n"
    "    deadweight integer\n);\n",
    "sql/visit.sql": "-- One row for each call of a vessel at this port.\nCREATE TABLE visit (\n"
    "    imo integer REFERENCES vessel,\n    arrived timestamptz,\n    departed timestamptz\n);\n",
    "README.md": "# Harbour\n\nPlans who berths where, and when.\n",
}

RECIPES = {
    "kitchen/dough.py": '''RESTING_MINUTES = 45


def knead(flour_grams, water_grams, yeast):
    """Fold the dough until it no longer sticks to the bowl."""
    hydration = water_grams / flour_grams
    rounds = 12 if hydration > 0.7 else 8
    return rounds, yeast or "sourdough"


def prove(dough, warmth):
    """Let the dough rest under a damp cloth until it has doubled in size."""
    minutes = RESTING_MINUTES * (24 / warmth)
    return minutes if dough.salted else minutes * 0.9
''',
    "kitchen/oven.py": '''def bake(loaf, crust="crisp"):
    """Begin hot with steam, and open the door a little for the last minutes."""
    heat = 250 if crust == "crisp" else 220
    return [(heat, 10, "steam"), (heat - 40, 25, "dry")]
''',
    "kitchen/pantry.js": """export function isStale(jar, today) {
  // Jam keeps for a year, honey for ever.
  if (jar.label === "honey") return false;
  const ripened = (today - jar.filled) / 86400000;
  return ripened > 365;
}

export function shoppingList(menu, shelf) {
  const missing = menu.filter((ingredient) => !shelf.has(ingredient));
  return missing.sort();
}
""",
    "README.md": "# Bakehouse\n\nScales recipes and times the oven.\n",
}

# Sentences of the code, each with the file that holds it.
SENTENCES = {
    "backup": {
        "Hash an archive block by block so that it never has to fit into memory.": "backup.py",
        "Delete the archives that neither the daily nor the weekly allowance covers.": "backup.py",
        "The date is the last part of the name, before the endings.": "backup.py",
        "Refuse to begin when the disk has less room than the previous archive took.": "backup.py",
    },
    "limiter": {
        "It refills at a steady rate up to its capacity.": "limiter/bucket.go",
        "Take removes a token and reports whether there was one left for this request.": (
            "limiter/bucket.go"
        ),
        "wrap answers 429 with a Retry-After header once a client has used up its allowance.": (
            "middleware.go"
        ),
    },
    "invoices": {
        "Amounts are whole cents, as fractions of them cannot be paid.": "src/money.ts",
        "Business customers in another member state owe the tax themselves.": "src/tax.ts",
        "Add up the minutes of each project that may be charged to the client.": (
            "src/timesheet.ts"
        ),
        "Numbers run without gaps within a year, which the tax office insists on.": (
            "src/invoice.ts"
        ),
        "The tone gets firmer with each letter, and the third one announces a fee.": (
            "src/reminder.ts"
        ),
        "Invoices whose due date has passed without a payment, the oldest first.": (
            "db/overdue.sql"
        ),
    },
    "recipes": {
        "Fold the dough until it no longer sticks to the bowl.": "kitchen/dough.py",
        "Let the dough rest under a damp cloth until it has doubled in size.": "kitchen/dough.py",
        "Begin hot with steam, and open the door a little for the last minutes.": (
            "kitchen/oven.py"
        ),
        "Jam keeps for a year, honey for ever.": "kitchen/pantry.js",
    },
    "harbour": {
        **{text: f"harbour/{name}.py" for name, (_, text) in _PORTS.items()},
        "Draws each vessel as an arrow that points to where it is heading.": "web/map.js",
        "Opens the position feed again after a pause whenever the antenna drops it.": "web/feed.js",
        "One row for each call of a vessel at this port.": "sql/visit.sql",
    },
}

# Names of parameters and local variables, and words of string literals, each with its file.
WORDS = {
    "backup": {"block_size": "backup.py", "dry_run": "backup.py", "needed_bytes": "backup.py",
               "compression": "backup.py", "stamp": "backup.py", "doomed": "backup.py",
               "victim": "backup.py", "almost": "backup.py", "mondays": "backup.py"},
    "limiter": {"refillPerSecond": "limiter/bucket.go", "elapsed": "limiter/bucket.go",
                "upstream": "main.go", "burst": "main.go", "malformed": "middleware.go",
                "slow down": "middleware.go", "host": "middleware.go"},
    "invoices": {"vatNumber": "src/tax.ts", "locale": "src/money.ts",
                 "timesReminded": "src/reminder.ts",
                 "hourlyRate": "src/invoice.ts", "totals": "src/timesheet.ts",
                 "collection": "src/reminder.ts", "neighbour": "test/money.test.ts",
                 "vat_number": "db/schema.sql", "counter": "src/invoice.ts"},
    "recipes": {"yeast": "kitchen/dough.py", "flour_grams": "kitchen/dough.py",
                "warmth": "kitchen/dough.py", "hydration": "kitchen/dough.py",
                "salted": "kitchen/dough.py", "crust": "kitchen/oven.py",
                "crisp": "kitchen/oven.py", "loaf": "kitchen/oven.py", "steam": "kitchen/oven.py",
                "honey": "kitchen/pantry.js", "jar": "kitchen/pantry.js",
                "ripened": "kitchen/pantry.js", "ingredient": "kitchen/pantry.js"},
    "harbour": {"gauges": "harbour/tides.py", "fraction": "harbour/tides.py",
                "anchorage": "harbour/berths.py", "roster": "harbour/pilots.py",
                "plugged_in": "harbour/fees.py", "tug_limit_knots": "harbour/weather.py",
                "fog signal": "harbour/weather.py", "rebate": "harbour/fees.py",
                "papers": "harbour/customs.py", "pen": "web/map.js",
                "deadweight": "sql/vessel.sql", "onPosition": "web/feed.js"},
}  # fmt: skip

REPOSITORIES = {
    "backup": BACKUP, "limiter": LIMITER, "invoices": INVOICES, "harbour": HARBOUR,
    "recipes": RECIPES,
}  # fmt: skip

# Things that software does, of which none of these repositories has anything.
ABSENT = (
    "kubernetes pod autoscaling",
    "resize uploaded images to thumbnails",
    "oauth login with google",
    "where are passwords hashed when a user signs up",
    "send a welcome email to new users",
    "full text search with stemming",
    "render markdown to html",
    "how does the garbage collector mark reachable objects",
    "database migrations and rollbacks",
    "speech recognition model training",
    "publish messages to a kafka topic",
    "shopping cart checkout",
    "syntax highlighting of source code",
    "parse command line of the debugger",
    "dark mode theme switch",
    "graphql resolvers",
    "take a backend out of rotation",
    "unicode normalization of file names",
    "leader election among replicas",
    "undo and redo of edits",
)
