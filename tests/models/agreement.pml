/*
 * How the ranks of a group agree on what to run next, with slots, inputs that come late and in any order, and
 * collectives inside the tasks. README.md says what is modelled and what is not; check_models.py holds the
 * configurations. Parameters, by -D:
 *
 *   RULE             SCALAR (first pick, deferred unless equal), LEADER or BITMAP (common candidate)
 *   STAGES           1: a stage whose surroundings hand over inputs and gradients whenever they like;
 *                    2: a source and the last stage, a group each
 *   RANKS            of each group, 2 or 3
 *   BATCHES          microbatches, 2 to 4
 *   LIMIT0, LIMIT1   slots of the stages
 *   DEPTH            tasks that may be launched and not ended on a rank
 *   PUBLISHED_LIMIT  everything offered is taken in, and forwards are held while D >= limit
 *   ANY_ORDER        backwards accumulate in any order
 *   REVERSED         the last stage's hint prefers the highest microbatch
 *   COMMON_MUST_DECIDE  asserts of the scalar rule what only the common candidate promises
 *
 * Mistakes to plant: RETRY_ON_OWN_CHANGE, RETRY_WITHOUT_CHANGE, ADVANCE_ON_COMPLETION, NO_RESERVATION.
 */
#define SCALAR 1
#define LEADER 2
#define BITMAP 3

#ifndef RULE
#define RULE BITMAP
#endif
#ifndef STAGES
#define STAGES 1
#endif
#ifndef RANKS
#define RANKS 2
#endif
#ifndef BATCHES
#define BATCHES 3
#endif
#ifndef LIMIT0
#define LIMIT0 2
#endif
#ifndef LIMIT1
#define LIMIT1 LIMIT0
#endif
#ifndef DEPTH
#define DEPTH 1
#endif
#if RANKS < 2 || RANKS > 3 || BATCHES < 2 || BATCHES > 4 || STAGES < 1 || STAGES > 2
#error "the model has 1 or 2 stages, 2 or 3 ranks a group and 2 to 4 microbatches"
#endif

/* Rank `g` is member g % RANKS of the group of stage g / RANKS. Sets are masks: of microbatches, or of
   tasks, where the forward of microbatch m is bit m and its backward bit BATCHES + m. */
#define ALL (STAGES * RANKS)
#define TASKS (2 * BATCHES)
#define NONE 255
#define NUMBERS 4 /* attempts and decisions are numbered modulo this: peers are at most one apart */
#define STAGE(g) ((g) / RANKS)
#define LIMIT(g) (STAGE(g) == 0 -> LIMIT0 : LIMIT1)
#define SOURCE(g) (STAGES == 2 && STAGE(g) == 0)
#define LAST(g) (STAGES == 2 && STAGE(g) == 1)
#define BIT(i) (1 << (i))
#define HAS(mask, i) (((mask) >> (i)) & 1)
#define FORWARDS(mask) ((mask) & (BIT(BATCHES) - 1))
#define BACKWARDS(mask) ((mask) >> BATCHES)
#define COUNT(mask) (HAS(mask, 0) + HAS(mask, 1) + HAS(mask, 2) + HAS(mask, 3))
#define FIRST(mask) (HAS(mask, 0) -> 0 : (HAS(mask, 1) -> 1 : (HAS(mask, 2) -> 2 : 3)))
#define FINAL(mask) (HAS(mask, 3) -> 3 : (HAS(mask, 2) -> 2 : (HAS(mask, 1) -> 1 : 0)))

byte credit[ALL];   /* microbatches that have, or had, their slot */
byte released[ALL]; /* and gave it back */
byte input[ALL];    /* activations that are here */
byte gradient[ALL]; /* gradients that are here, the forward having been launched */
byte launched[ALL]; /* tasks */
byte ended[ALL];    /* tasks */
byte launches[ALL]; /* their number */
byte ends[ALL];
/* What each stage ran, in order: written by the first rank to launch, compared with by the others. */
byte sequence[STAGES * TASKS];

/* What a rank last put in, 0 or NONE if nothing since the last decision. */
byte said[ALL];
#if RULE == LEADER
byte told[ALL];    /* tasks announced to the leader */
byte known[ALL];   /* of them, those the leader has heard of */
byte decided[ALL]; /* number of the decision that comes next */
bool asked[ALL];   /* a follower has asked for it */
bool asks[ALL];    /* and the leader knows */
chan requests[ALL] = [2] of { byte, byte };  /* to the leader, by follower: decision, newly runnable tasks */
chan decisions[ALL] = [1] of { byte, byte }; /* to a follower: decision, task */
#define NOTHING_SAID 0
#else
byte attempt[ALL];          /* number of the one that is not concluded here */
bool joined[ALL];           /* this rank has put in its proposal */
byte heard[ALL];            /* members whose proposals are here, itself included */
byte proposal[ALL * RANKS]; /* by member */
byte put_in[ALL * 2];       /* what was runnable when it joined, by the attempt's parity: for the assertion */
chan proposals[ALL * RANKS] = [2] of { byte, byte }; /* to a rank, by member: attempt, proposal */
#if RULE == SCALAR
#define NOTHING_SAID NONE
#else
#define NOTHING_SAID 0
#endif
#endif

hidden byte picked, common, member, task, place;

/* ---- slots ---- */

#define FREE(g) (LIMIT(g) - COUNT(credit[g] & ~released[g]))
#define UNFINISHED(g) (FORWARDS(~released[g]))
#define OLDEST(g) FIRST(UNFINISHED(g))
#define OLDEST_LACKS_SLOT(g) (UNFINISHED(g) != 0 && !HAS(credit[g], OLDEST(g)))
#if defined(PUBLISHED_LIMIT)
#define ADMITS(g, m) true
#elif defined(NO_RESERVATION)
#define ADMITS(g, m) (FREE(g) > 0)
#else
/* After an admission a free slot is left for the oldest unfinished microbatch if it has none. */
#define ADMITS(g, m) (FREE(g) > ((m) != OLDEST(g) && OLDEST_LACKS_SLOT(g) -> 1 : 0))
#endif

/* ---- what is runnable, and the arbiter: hint BF, rounds ---- */

#define UNLAUNCHED_FORWARDS(g) FORWARDS(~launched[g])
#define SOURCE_FORWARD(g) FIRST(UNLAUNCHED_FORWARDS(g))
#define RUNNABLE_FORWARDS(g) \
  (SOURCE(g) -> (UNLAUNCHED_FORWARDS(g) != 0 && ADMITS(g, SOURCE_FORWARD(g)) -> BIT(SOURCE_FORWARD(g)) : 0) \
             : (input[g] & ~launched[g]))
#ifdef ANY_ORDER
#define IN_TURN(g) (BIT(BATCHES) - 1)
#else
#define IN_TURN(g) ((BACKWARDS(launched[g]) << 1) | 1)
#endif
#define RUNNABLE_BACKWARDS(g) (gradient[g] & ~BACKWARDS(launched[g]) & IN_TURN(g))
#define RUNNABLE(g) (RUNNABLE_FORWARDS(g) | (RUNNABLE_BACKWARDS(g) << BATCHES))

/* The arbitration state, D and whose turn the round has, follows from the tasks that count. */
#ifdef ADVANCE_ON_COMPLETION
#define COUNTED(g) ended[g]
#define COUNTED_TASKS(g) ends[g]
#else
#define COUNTED(g) launched[g]
#define COUNTED_TASKS(g) launches[g]
#endif
#define AT(g, k) sequence[STAGE(g) * TASKS + (k)]
#define TURN_OF_FORWARDS(g) (COUNTED_TASKS(g) > 0 && AT(g, COUNTED_TASKS(g) - 1) >= BATCHES)
#ifdef PUBLISHED_LIMIT
#define D(g) (COUNT(FORWARDS(COUNTED(g))) - COUNT(BACKWARDS(COUNTED(g))))
#define HOLDS_FORWARDS(g) (D(g) >= LIMIT(g))
#else
#define HOLDS_FORWARDS(g) false
#endif
#ifdef REVERSED
#define BEST_FORWARD(g, mask) (STAGE(g) == STAGES - 1 -> FINAL(mask) : FIRST(mask))
#else
#define BEST_FORWARD(g, mask) FIRST(mask)
#endif
#define ROOM(g) (launches[g] - ends[g] < DEPTH)
#define ALLOWED(g, mask) (HOLDS_FORWARDS(g) -> (mask) & ~(BIT(BATCHES) - 1) : (mask))
#define WILLING(g) (ALLOWED(g, RUNNABLE(g)) != 0)

/* The arbiter's best task of the set, or NONE. */
#define IS_FORWARD(g, set) (FORWARDS(set) != 0 && (BACKWARDS(set) == 0 || TURN_OF_FORWARDS(g)))
#define BEST(g, set) \
  (IS_FORWARD(g, set) -> BEST_FORWARD(g, FORWARDS(set)) \
                      : (BACKWARDS(set) != 0 -> BATCHES + FIRST(BACKWARDS(set)) : NONE))

/* The decision takes effect on a rank. */
inline launch(g, what) {
  assert(ROOM(g));
  assert(HAS(RUNNABLE(g), what)); /* it has its inputs and its slot here, and has not run */
  place = launches[g];
  assert(AT(g, place) == NONE || AT(g, place) == what); /* all ranks run the same sequence */
  AT(g, place) = what;
  if
  :: SOURCE(g) && what < BATCHES -> credit[g] = credit[g] | BIT(what)
  :: LAST(g) && what < BATCHES -> gradient[g] = gradient[g] | BIT(what)
  :: else
  fi;
  launched[g] = launched[g] | BIT(what);
  launches[g]++;
  said[g] = NOTHING_SAID
}

/* ---- what happens around the agreement ---- */

#define OFFERED(g, m) (!SOURCE(g) && (STAGES == 1 || HAS(ended[g - RANKS], m)))
#define CAN_ADMIT(g, m) (OFFERED(g, m) && !HAS(credit[g], m) && ADMITS(g, m))
#define CAN_ARRIVE(g, m) (HAS(credit[g], m) && !HAS(input[g], m) && !SOURCE(g))
#define GRADIENT_OFFERED(g, m) (STAGES == 1 -> HAS(ended[g], m) : HAS(ended[g + RANKS], BATCHES + m))
#define CAN_RETURN(g, m) (!LAST(g) && !HAS(gradient[g], m) && GRADIENT_OFFERED(g, m))

#define ADMIT(g, m) d_step { CAN_ADMIT(g, m) -> credit[g] = credit[g] | BIT(m) }
#define ARRIVE(g, m) d_step { CAN_ARRIVE(g, m) -> input[g] = input[g] | BIT(m) }
/* A gradient is taken at once, as its microbatch has its slot; that gives back the sender's. */
#define RETURN(g, m) \
  d_step { \
    CAN_RETURN(g, m) -> gradient[g] = gradient[g] | BIT(m); \
    if \
    :: SOURCE(g) -> released[g + RANKS] = released[g + RANKS] | BIT(m) \
    :: else \
    fi \
  }

#if RANKS == 2
#define LAUNCHED_BY_ALL(g, k) (launches[STAGE(g) * RANKS] > k && launches[STAGE(g) * RANKS + 1] > k)
#else
#define LAUNCHED_BY_ALL(g, k) \
  (launches[STAGE(g) * RANKS] > k && launches[STAGE(g) * RANKS + 1] > k && launches[STAGE(g) * RANKS + 2] > k)
#endif

/* A task has collectives inside: it ends nowhere before all ranks of the group have launched it. */
#define END(g) \
  d_step { \
    ends[g] < launches[g] && LAUNCHED_BY_ALL(g, ends[g]) -> \
    task = AT(g, ends[g]); \
    ended[g] = ended[g] | BIT(task); \
    ends[g]++; \
    if \
    :: task >= BATCHES && !LAST(g) -> released[g] = released[g] | BIT(task - BATCHES) \
    :: else \
    fi \
  }

/* ---- common candidate, by leader: member 0 ---- */

#if RULE == LEADER

#define LEADS(g) ((g) % RANKS == 0)
#define NEXT(number) (((number) + 1) % NUMBERS)
#if RANKS == 2
#define ALL_ASK(g) asks[g + 1]
#define COMMON(g) (RUNNABLE(g) & known[g + 1])
#else
#define ALL_ASK(g) (asks[g + 1] && asks[g + 2])
#define COMMON(g) (RUNNABLE(g) & known[g + 1] & known[g + 2])
#endif

/* A follower that could launch asks for the decision, and tells what became runnable since. */
#define NEWS(g) (RUNNABLE(g) & ~told[g])
#define ASK(g) \
  d_step { \
    !LEADS(g) && ROOM(g) && (asked[g] -> NEWS(g) != 0 : WILLING(g)) && nfull(requests[g]) -> \
    requests[g] ! decided[g], NEWS(g); \
    told[g] = told[g] | RUNNABLE(g); \
    asked[g] = true \
  }

/* A request for a decision that was already made is late: its news counts. */
#define LEARN(g, from) \
  d_step { \
    LEADS(g) && requests[g + from] ? [place, task] -> \
    requests[g + from] ? place, task; \
    assert(place == decided[g] || NEXT(place) == decided[g]); \
    known[g + from] = known[g + from] | task; \
    asks[g + from] = asks[g + from] || place == decided[g] \
  }

#ifdef RETRY_ON_OWN_CHANGE
#define LOOKS(g) (RUNNABLE(g) != said[g])
#else
#define LOOKS(g) (ALL_ASK(g) && ALLOWED(g, COMMON(g)) != 0)
#endif

#define DECIDE(g) \
  d_step { \
    LEADS(g) && ROOM(g) && LOOKS(g) -> \
    said[g] = RUNNABLE(g); \
    common = (ALL_ASK(g) -> COMMON(g) : 0); \
    picked = BEST(g, ALLOWED(g, common)); \
    assert(ALLOWED(g, common) == 0 || picked != NONE); /* a task they share is decided on */ \
    if \
    :: picked != NONE -> \
      member = 1; \
      do \
      :: member < RANKS -> \
        decisions[g + member] ! decided[g], picked; \
        asks[g + member] = false; \
        member++ \
      :: else -> break \
      od; \
      decided[g] = NEXT(decided[g]); \
      launch(g, picked) \
    :: else \
    fi \
  }

#define FOLLOW(g) \
  d_step { \
    !LEADS(g) && decisions[g] ? [place, picked] -> \
    decisions[g] ? place, picked; \
    assert(asked[g] && place == decided[g]); \
    decided[g] = NEXT(decided[g]); \
    asked[g] = false; \
    launch(g, picked) \
  }

#else

/* ---- numbered attempts: all members put in a proposal, then all know the outcome ---- */

#define CHANNEL(to, from) proposals[(to) * RANKS + (from) % RANKS]
#define GROUP(g) (STAGE(g) * RANKS)
#define ALL_MEMBERS (BIT(RANKS) - 1)

/* What the rank puts in: its own pick, or all that is runnable. */
#if RULE == SCALAR
#define PUTS_IN(g) BEST(g, ALLOWED(g, RUNNABLE(g)))
#else
#define PUTS_IN(g) RUNNABLE(g)
#endif

/* A rank opens an attempt when it has something to run and something new to say. */
#ifdef RETRY_WITHOUT_CHANGE
#define OPENS(g) WILLING(g)
#else
#define OPENS(g) (WILLING(g) && PUTS_IN(g) != said[g])
#endif
/* It joins one that a peer opened, changed or not; under the published rule once it has a pick. */
#ifdef RETRY_ON_OWN_CHANGE
#define RUNG(g) false
#elif RULE == SCALAR
#define RUNG(g) (heard[g] != 0 && WILLING(g))
#else
#define RUNG(g) (heard[g] != 0)
#endif

#if RULE == SCALAR
#define COMBINE(g, with) common = (common == proposal[(g) * RANKS + (with)] -> common : NONE)
#define OUTCOME(g) picked = common
#else
#define COMBINE(g, with) common = common & proposal[(g) * RANKS + (with)]
#define OUTCOME(g) picked = BEST(g, ALLOWED(g, common))
#endif

#define SNAPSHOT(g, with) put_in[(GROUP(g) + (with)) * 2 + attempt[g] % 2]
#if RANKS == 2
#define SHARED(g) (SNAPSHOT(g, 0) & SNAPSHOT(g, 1))
#else
#define SHARED(g) (SNAPSHOT(g, 0) & SNAPSHOT(g, 1) & SNAPSHOT(g, 2))
#endif

/* With every proposal here, the attempt decides or is over. */
inline conclude(g) {
  if
  :: heard[g] == ALL_MEMBERS ->
    common = proposal[g * RANKS];
    member = 1;
    do
    :: member < RANKS -> COMBINE(g, member); member++
    :: else -> break
    od;
    OUTCOME(g);
#if RULE == BITMAP || defined(COMMON_MUST_DECIDE)
    assert(ALLOWED(g, SHARED(g)) == 0 || picked != NONE); /* a task they share is decided on */
#endif
    heard[g] = 0;
    joined[g] = false;
    attempt[g] = (attempt[g] + 1) % NUMBERS;
    member = 0;
    do
    :: member < RANKS -> proposal[g * RANKS + member] = 0; member++
    :: else -> break
    od;
    if
    :: picked != NONE -> launch(g, picked)
    :: else
    fi
  :: else
  fi
}

#define JOIN(g) \
  d_step { \
    !joined[g] && ROOM(g) && (OPENS(g) || RUNG(g)) -> \
    said[g] = PUTS_IN(g); \
    joined[g] = true; \
    heard[g] = heard[g] | BIT((g) % RANKS); \
    proposal[(g) * RANKS + (g) % RANKS] = said[g]; \
    put_in[(g) * 2 + attempt[g] % 2] = RUNNABLE(g); \
    member = 0; \
    do \
    :: member < RANKS && GROUP(g) + member != g -> \
      place = (NUMBERS + attempt[GROUP(g) + member] - attempt[g]) % NUMBERS; \
      assert(place <= 1 || (place == NUMBERS - 1 && joined[GROUP(g) + member])); \
      CHANNEL(GROUP(g) + member, g) ! attempt[g], said[g]; \
      member++ \
    :: member < RANKS && GROUP(g) + member == g -> member++ \
    :: member == RANKS -> break \
    od; \
    conclude(g) \
  }

/* What belongs to a later attempt stays in the channel until that begins. */
#define HEAR(g, from) \
  d_step { \
    (g) % RANKS != from && CHANNEL(g, from) ? [eval(attempt[g]), task] -> \
    CHANNEL(g, from) ? eval(attempt[g]), task; \
    proposal[(g) * RANKS + from] = task; \
    heard[g] = heard[g] | BIT(from); \
    conclude(g) \
  }

#endif

proctype rank(byte g) {
  do
  :: ADMIT(g, 0)
  :: ARRIVE(g, 0)
  :: RETURN(g, 0)
  :: ADMIT(g, 1)
  :: ARRIVE(g, 1)
  :: RETURN(g, 1)
#if BATCHES > 2
  :: ADMIT(g, 2)
  :: ARRIVE(g, 2)
  :: RETURN(g, 2)
#endif
#if BATCHES > 3
  :: ADMIT(g, 3)
  :: ARRIVE(g, 3)
  :: RETURN(g, 3)
#endif
  :: END(g)
#if RULE == LEADER
  :: ASK(g)
  :: LEARN(g, 1)
#if RANKS > 2
  :: LEARN(g, 2)
#endif
  :: DECIDE(g)
  :: FOLLOW(g)
#else
  :: JOIN(g)
  :: HEAR(g, 0)
  :: HEAR(g, 1)
#if RANKS > 2
  :: HEAR(g, 2)
#endif
#endif
  :: ends[g] == TASKS -> break
  od
}

init {
  atomic {
    member = 0;
    do
    :: member < STAGES * TASKS -> sequence[member] = NONE; member++
    :: else -> break
    od;
    member = 0;
    do
    :: member < ALL -> said[member] = NOTHING_SAID; run rank(member); member++
    :: else -> break
    od
  }
}
