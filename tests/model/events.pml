/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of the streams of one function (protocol §5): signals, waits, resets, and the cycles among waits.
 *
 * Mirrors: firmware/core/events.cpp step_signal(), step_wait(), cycle_from(); stream_table.cpp note_queued_signal(),
 * call_waiters(), park(); what poison and a reset of a stream do to those that wait for it.
 *
 * Hart 0 does one thing at a time, so that there is one process. Nondeterministic is what hosts submit, when it is
 * fetched, which runnable stream makes its step, and when a stream is reset. A stream submits BLOCKS blocks: signals,
 * numbered 1, 2, … and never again, and waits for any value of another stream, or of itself.
 *
 * Shown: a wait is fulfilled only by its signal. Who is told of a deadlock is in a cycle, as the queues say it. When
 * nothing can go on, every stream that waits waits for a signal that nobody has submitted: no wake-up was lost, and no
 * cycle is left.
 *
 * Mutants: NO_CALL (a signal wakes nobody), CALL_ONE (only the first of its waiters), NO_CALL_ON_POISON,
 * NO_CALL_ON_RESET, NO_LOOK_AGAIN (a signal queued behind a wait does not look for the cycle that it closes),
 * NO_CYCLES (none is looked for), ANY_WAIT_IS_A_CYCLE (it does not matter whether the signal is queued),
 * THROUGH_FULFILLED (a wait that has its end, and has not been stepped since, is part of a cycle), FORGETFUL (a reset
 * forgets what had been signalled).
 */
#ifndef STREAMS
#define STREAMS 2
#endif
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef RESETS
#define RESETS 1
#endif
#define AT(s, i) ((s) * BLOCKS + (i))

/* Blocks: target == the stream and signals: a signal. */
bool signals[STREAMS * BLOCKS];
byte target[STREAMS * BLOCKS];
byte wanted[STREAMS * BLOCKS];
byte wanted_of[STREAMS * BLOCKS];  /* incarnation */

byte head[STREAMS];
byte count[STREAMS];     /* submitted */
byte last[STREAMS];      /* signal that was submitted */
bool parked[STREAMS];
bool called[STREAMS];    /* parked, and looks again when it is stepped */
bool poisoned[STREAMS];
byte value[STREAMS];
byte queued[STREAMS];
byte before[STREAMS];    /* value at the incarnation's begin */
byte signalled[STREAMS]; /* the same, whatever the card remembers */
byte incarnation[STREAMS];
byte resets = 0;

/* Of one step: no part of a state. */
hidden byte s, to, v, i, at, b;
hidden byte any, cycle, found;

#define HEAD AT(s, head[s])
#define RUNNABLE(x) (head[x] < count[x] && (!parked[x] || called[x]))

inline call_waiters(whose, all) {
  any = false;
  i = 0;
  do
  :: i < STREAMS ->
    if
    :: parked[i] && target[AT(i, head[i])] == whose && (all || wanted[AT(i, head[i])] <= value[whose]) ->
#ifdef CALL_ONE
      if
      :: !any -> called[i] = true
      :: else
      fi;
#else
      called[i] = true;
#endif
      any = true
    :: else
    fi;
    i++
  :: else -> break
  od
}

/* What has not started is taken out; it signals nothing any more. */
inline drop_blocks() {
  head[s] = count[s];
  parked[s] = false;
  called[s] = false;
  queued[s] = value[s]
}

inline poison() {
  poisoned[s] = true;
  drop_blocks();
#ifndef NO_CALL_ON_POISON
  call_waiters(s, true)
#endif
}

inline reset_stream() {
  incarnation[s]++;
  signalled[s] = value[s];
#ifndef FORGETFUL
  before[s] = value[s];
#endif
  drop_blocks();
  poisoned[s] = false;
#ifndef NO_CALL_ON_RESET
  call_waiters(s, true)
#endif
}

/* cycle_from(): whether the wait at the head of s closes one. */
inline look_for_cycle() {
  cycle = false;
#ifndef NO_CYCLES
  at = s;
  i = 0;
  do
  :: i < STREAMS && !cycle ->
    to = target[AT(at, head[at])];
    v = wanted[AT(at, head[at])];
    if
    :: to == at -> cycle = true
    :: else ->
      if
#ifndef THROUGH_FULFILLED
      :: v <= value[to] || wanted_of[AT(at, head[at])] != incarnation[to] -> break
#endif
#ifndef ANY_WAIT_IS_A_CYCLE
      :: queued[to] < v -> break
#endif
      :: else ->
        if
        :: to == s -> cycle = true
        :: else ->
          if
          :: !parked[to] -> break
          :: else -> at = to
          fi
        fi
      fi
    fi;
    i++
  :: else -> break
  od
#endif
}

/* The same from the queues themselves: every stream from s on waits for a signal that stands behind the next one's
 * wait, or for its own. Sets `cycle`. */
inline is_in_a_cycle() {
  cycle = false;
  at = s;
  i = 0;
  do
  :: i < STREAMS ->
    to = target[AT(at, head[at])];
    v = wanted[AT(at, head[at])];
    if
    :: to == at -> cycle = true; break
    :: else
    fi;
    found = false;
    any = head[to] < count[to] && !signals[AT(to, head[to])];  /* it waits, too */
    b = head[to];
    do
    :: b < count[to] ->
      found = found || (signals[AT(to, b)] && wanted[AT(to, b)] >= v);
      b++
    :: else -> break
    od;
    if
    :: !any || !found -> break
    :: to == s -> cycle = true; break
    :: else -> at = to
    fi;
    i++
  :: else -> break
  od
}

inline step_signal() {
  value[s] = wanted[HEAD];
  head[s]++;
#ifndef NO_CALL
  call_waiters(s, false)
#endif
}

inline step_wait() {
  parked[s] = false;
  called[s] = false;
  to = target[HEAD];
  v = wanted[HEAD];
  if
  :: wanted_of[HEAD] == incarnation[to] && v <= value[to] -> head[s]++
  :: wanted_of[HEAD] == incarnation[to] && v > value[to] && poisoned[to] -> poison()
  :: wanted_of[HEAD] < incarnation[to] && v <= before[to] && wanted_of[HEAD] + 1 == incarnation[to] ->
    assert(v <= value[to]);
    head[s]++
  :: wanted_of[HEAD] < incarnation[to] && !(v <= before[to] && wanted_of[HEAD] + 1 == incarnation[to]) ->
    /* What was signalled is still known. */
    assert(wanted_of[HEAD] + 1 != incarnation[to] || v > signalled[to]);
    poison()
  :: else ->
    look_for_cycle();
    if
    :: cycle ->
      is_in_a_cycle();
      assert(cycle);
      poison()
    :: else -> parked[s] = true
    fi
  fi
}

inline submit_signal() {
  last[s]++;
  if
  :: poisoned[s] -> skip  /* ends at once */
  :: else ->
    signals[AT(s, count[s])] = true;
    target[AT(s, count[s])] = s;
    wanted[AT(s, count[s])] = last[s];
    queued[s] = last[s];
#ifndef NO_LOOK_AGAIN
    called[s] = parked[s]
#endif
  fi;
  if
  :: poisoned[s] -> head[s]++
  :: else
  fi;
  count[s]++
}

inline submit_wait(whose, number) {
  if
  :: poisoned[s] -> head[s]++
  :: else ->
    signals[AT(s, count[s])] = false;
    target[AT(s, count[s])] = whose;
    wanted[AT(s, count[s])] = number;
    wanted_of[AT(s, count[s])] = incarnation[whose]
  fi;
  count[s]++
}

/* Nothing is runnable, and nothing comes any more. */
inline look_at_the_end() {
  s = 0;
  do
  :: s < STREAMS ->
    if
    :: parked[s] ->
      to = target[HEAD];
      assert(wanted[HEAD] > value[to]);              /* no lost wake-up */
      assert(wanted_of[HEAD] == incarnation[to]);
      assert(!poisoned[to]);
      is_in_a_cycle();
      assert(!cycle)
    :: else
    fi;
    s++
  :: else -> break
  od
}

inline choose(which) {
  which = 0;
  do
  :: which + 1 < STREAMS -> which++
  :: break
  od
}

active proctype card() {
  byte who, other, number;
  do
  :: atomic {
      choose(who);
      if
      :: count[who] < BLOCKS -> d_step { s = who; submit_signal(); skip }
      :: count[who] < BLOCKS ->
        choose(other);
        if
        :: number = 1
        :: number = 2
        fi;
        d_step { s = who; submit_wait(other, number); other = 0; number = 0 }
      :: RUNNABLE(who) && signals[AT(who, head[who])] -> d_step { s = who; step_signal(); skip }
      :: RUNNABLE(who) && !signals[AT(who, head[who])] -> d_step { s = who; step_wait(); skip }
      :: resets < RESETS -> d_step { resets++; s = who; reset_stream(); skip }
      :: else
      fi;
      who = 0
    }
  :: d_step {
      any = false;
      s = 0;
      do
      :: s < STREAMS -> any = any || RUNNABLE(s) || count[s] < BLOCKS; s++
      :: else -> break
      od;
      if
      :: !any -> look_at_the_end()
      :: else
      fi;
      skip
    }
  od
}
