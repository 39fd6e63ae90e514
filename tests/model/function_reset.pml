/* SPDX-License-Identifier: Apache-2.0
 *
 * A function reset (FLR) on a card with cores: the driver asks for it (status 0), the management function asks for it too,
 * while the driver submits, a transfer moves and a launch runs on CORES harts besides hart 0.
 *
 * Mirrors firmware/core/reset.cpp (quiesce, begin_function_reset, begin_driver_reset, progress_resets,
 * end_function_reset), intake.cpp (fetch_blocks), dispatcher.cpp (run_streams), launch_steps.cpp (launch_ended) and the host's half,
 * host_driver/device (completions first, then what is outstanding is ended by the driver). Hart 0 is one process; each
 * of its steps is a step of the model, because cores and the host go on in between. The states of protocol §9:
 * QUIESCE is quiesce(), ACKED is `acked`, SCRUB is scrubbed = incarnation, RESET_DONE is the last statement of progress().
 *
 * Properties: after ACKED no hart touches the memory of the incarnation that ended, and nothing runs when it is scrubbed; nothing
 * completes after the end of the reset, and nothing at all for a block of an earlier incarnation; every submitted block ends
 * exactly once, by the card's completion or by the driver's own hand; the driver's request is answered exactly once and
 * never refused; nobody waits for ever (that would be a deadlock), an endless kernel included.
 *
 * Mutants: NO_WAIT (the reset ends while harts still run), NO_KILL (harts are not told), RINGS_STAY (the ring is still
 * fetched from), KEEP_RUNNABLE (transfers go on), LATE_COMPLETES (a launch that ends during the reset completes its
 * block), NO_GENERATION (the generation does not change), STATUS_FIRST (status 0 is shown before the scrub), NO_JOIN (a
 * second reset begins anew), FORGETFUL (the driver does not look for completions before it ends what is outstanding).
 */
#ifndef CORES
#define CORES 2
#endif
#define BLOCKS 2      /* that the driver submits, in all its incarnations */
#ifndef INCARNATIONS
#define INCARNATIONS 1       /* status 0 and bring-up again, so often */
#endif

/* A block's way. DROPPED: the card let go of it without a completion, which only a reset may. */
#define NONE 0
#define AVAIL 1       /* in the ring */
#define MOVING 2      /* a transfer on hart 0 */
#define RUNNING 3     /* a launch on the cores */
#define USED 4        /* completed, not taken by the driver */
#define DROPPED 5
#define OVER 6        /* the driver told its owner */

#define STRAY BLOCKS    /* one more block: of a child of the driver, which publishes it whenever it likes */
#define ALL (BLOCKS + 1)

byte state[ALL];
byte generation_of[ALL]; /* what its header says */
byte incarnation_of[ALL];       /* the incarnation that it was made for */
byte ended[ALL];         /* how often its owner was told */

byte generation = 1;     /* of the function, the card's */
byte age = 1;            /* resets begun, whatever the card tells */
byte incarnation = 1;           /* resets ended */
bool ring_on = true;     /* queues set and DRIVER_OK */
bool runnable = false;   /* hart 0 has a transfer to go on with */
bool resetting = false;
bool acked = false;      /* every hart is out, no transfer moves */
byte scrubbed = 0;       /* the last incarnation whose memory is clean */
bool kill = false;
byte parts_left = 0;     /* of the one launch */
byte launch_incarnation = 0;
byte touching = 0;       /* harts in U-mode in the function's memory */
bool ticket[CORES];
byte status0 = 0;        /* the driver's requests, not answered */
bool asked = false;      /* one is to be answered at the end */
byte answers = 0, refusals = 0;
bool manager_asks = false;
bool shut = false;       /* the driver has gone for good */

/* ---- the card ---------------------------------------------------------------------------------------------------------- */

inline touch(whose) {
  assert(!(acked && whose == incarnation) && scrubbed < whose)
}

inline complete(b) {
  assert(ring_on);                 /* nothing completes once the rings are off */
  assert(incarnation_of[b] == incarnation);      /* nor anything of an earlier incarnation */
  assert(state[b] != USED && state[b] != OVER);
  state[b] = USED
}

/* Parts leave at a slice's end. A kernel may be endless: then only the kill ends it. */
proctype core(byte c) {
  byte mine;
  bool inside, endless;
end:
  do
  :: atomic {
      ticket[c] -> mine = launch_incarnation; touching++;
      if                        /* endless is decided beforehand: a kernel that may still exit would hide it */
      :: kill
      :: !kill -> inside = true
      :: !kill -> inside = true; endless = true
      fi
    }
    if
    :: inside -> atomic { touch(mine); inside = false };
      (kill || !endless)        /* slices without end, until it is told */
    :: !inside                  /* told before it began */
    fi;
    atomic { ticket[c] = false; touching--; parts_left--; mine = 0; endless = false }
  od
}

inline quiesce() {
#ifdef NO_GENERATION
  age++;
#else
  atomic { age++; generation++ }
#endif
  atomic {
    resetting = true;
#ifndef RINGS_STAY
    ring_on = false;
#endif
#ifndef KEEP_RUNNABLE
    runnable = false
#endif
  }
#ifndef NO_KILL
  kill = parts_left > 0
#endif
}

/* The reset of PF or M: joins one that runs. */
inline begin_function_reset() {
#ifdef NO_JOIN
  if
  :: asked -> asked = false; refusals++
  :: else
  fi;
  quiesce()
#else
  if
  :: resetting -> skip
  :: else -> quiesce()
  fi
#endif
}

/* Status 0: the answer waits for the end. */
inline begin_driver_reset() {
  status0--;
  if
  :: resetting -> skip
  :: else -> quiesce()
  fi;
  asked = true
}

inline drop_blocks() {
  for (i : 0 .. ALL - 1) {
    if
    :: state[i] == AVAIL || state[i] == MOVING || state[i] == RUNNING -> state[i] = DROPPED
    :: else
    fi
  }
  i = 0
}

#ifdef NO_WAIT
#define MAY_END resetting
#else
#define MAY_END (resetting && parts_left == 0 && launch == ALL)
#endif

inline progress() {
#ifdef STATUS_FIRST
  atomic { answers = answers + asked; asked = false }
#endif
  atomic { acked = true; assert(touching == 0) }
  scrubbed = incarnation;             /* regions released, contexts, caches and window blocks cleaned */
  atomic {                     /* state as new */
    drop_blocks();
    runnable = false; kill = false; launch = ALL; transfer = ALL;
    incarnation++;
    acked = false;
    resetting = false
  }
  atomic { answers = answers + asked; asked = false }  /* RESET_DONE: indices 0, status 0 last */
}

/* A launch that has ended is collected. */
inline collect() {
  if
  :: resetting ->
#ifdef LATE_COMPLETES
    complete(launch)
#else
    state[launch] = DROPPED
#endif
  :: else -> complete(launch)
  fi;
  launch = ALL;
  kill = false
}

inline fetch(b) {
  if
  :: generation_of[b] != generation -> state[b] = USED  /* REJECTED: stale generation, before any side effect */
  :: else ->
    assert(incarnation_of[b] == incarnation);                   /* nothing of an earlier incarnation is executed */
    if
    :: state[b] = USED                            /* ends at once */
    :: transfer == ALL -> state[b] = MOVING; transfer = b; runnable = true
    :: launch == ALL ->
      atomic {
        state[b] = RUNNING; launch = b; launch_incarnation = incarnation; parts_left = CORES;
        for (i : 0 .. CORES - 1) { ticket[i] = true }
        i = 0
      }
    fi
  fi
}

proctype hart0() {
  byte i = 0, transfer = ALL, launch = ALL;
end:
  do
  :: status0 > 0 -> begin_driver_reset()
  :: manager_asks -> manager_asks = false; begin_function_reset()
  :: MAY_END -> progress()
  :: ring_on && state[0] == AVAIL -> fetch(0)
  :: ring_on && state[1] == AVAIL -> fetch(1)
  :: ring_on && state[2] == AVAIL -> fetch(2)
  :: runnable && transfer < ALL ->
    touch(incarnation_of[transfer]);
    complete(transfer); runnable = false; transfer = ALL
  :: launch < ALL && parts_left == 0 -> collect()
  od
}

/* ---- the host ---------------------------------------------------------------------------------------------------------- */

/* A block ends for its owner: by the card's completion, or by the driver when that can not come any more. */
inline over(b) {
  ended[b]++;
  assert(ended[b] == 1);
  state[b] = OVER
}

inline take_completions() {
  for (j : 0 .. BLOCKS - 1) {
    if
    :: state[j] == USED -> over(j)
    :: else
    fi
  }
  j = 0
}

/* Behind the answer to status 0: what the card has not completed it never will. */
inline fail_outstanding() {
  for (j : 0 .. BLOCKS - 1) {
    if
    :: j < next && state[j] != OVER ->
      assert(state[j] != MOVING && state[j] != RUNNING);  /* the card has let go of it */
      assert(state[j] != USED);                           /* what was completed is never called lost */
      over(j)
    :: else
    fi
  }
  j = 0
}

proctype driver() {
  byte j = 0, next = 0, boots = 0, seen = 1, mine = 1;
  do
  :: next < BLOCKS ->                  /* made for the incarnation that the driver read … */
    atomic {                           /* … and published whenever it gets to it */
      generation_of[next] = seen; incarnation_of[next] = mine; state[next] = AVAIL; next++
    }
  :: state[0] == USED -> over(0)
  :: state[1] == USED -> over(1)
  :: boots < INCARNATIONS ->
    atomic { boots++; status0++ }
    answers + refusals == boots;       /* a bounded wait in the code; here for ever would be a deadlock */
    assert(refusals == 0);
    atomic {
#ifndef FORGETFUL
      take_completions();
#endif
      fail_outstanding()
    }
    atomic {                           /* bring-up reads the configuration again */
      seen = generation; mine = age; ring_on = !resetting
    }
  :: boots == INCARNATIONS && next == BLOCKS ->
    /* All submitted, and no reset of its own to come: a last status 0, as at detach. */
    status0++;
    answers + refusals == INCARNATIONS + 1;
    assert(refusals == 0);
    atomic { take_completions() }
    atomic { fail_outstanding() }
    break
  od;
  for (j : 0 .. BLOCKS - 1) { assert(ended[j] == 1) }
  assert(answers == INCARNATIONS + 1);
  shut = true
}

/* It shares the window and does not know of resets: what it made for one incarnation it publishes in another. */
proctype child() {
  atomic { generation_of[STRAY] = generation; incarnation_of[STRAY] = age }
  if
  :: state[STRAY] = AVAIL
  :: true
  fi
}

/* M resets the function at any moment, or never. The driver is told of it by NEEDS_RESET and does status 0. */
proctype manager() {
  if
  :: true -> manager_asks = true
  :: true
  fi
}

init {
  byte c;
  atomic {
    run hart0();
    for (c : 0 .. CORES - 1) { run core(c) }
    run driver();
    run child();
    run manager()
  }
}
