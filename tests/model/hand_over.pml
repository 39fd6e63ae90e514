/* SPDX-License-Identifier: Apache-2.0
 *
 * A launch with a part on each of PARTS cores, from release to collection, while kernels exit, fault, meet at barriers,
 * leave others behind at a barrier, and while hart 0 kills the launch at any moment.
 *
 * Mirrors firmware/core/run_queues.cpp: push, pop; firmware/core/slices.cpp: part_done, call_parts, fail, leave, arrive,
 * handle_stop, run_slice, stop; and firmware/core/launches.hpp collect(). `stopping` and `ended` are LaunchState: who
 * fails the launch changes it from Running to Stopping in one step, and only that one calls the parts. A critical section
 * of Launch::lock or CoreQueue::lock is one atomic step. Core 0 is hart 0, which also stops and collects.
 *
 * Properties: a part ends exactly once; a ticket is never queued twice; the launch ends exactly once, and when hart 0 collects
 * it, nobody touches it any more; no part is left behind (that would be a deadlock).
 *
 * Mutants: NO_KILL_RECHECK (arrive() parks without looking whether it stops), NO_LEAVE_CHECK (an exit does not look for parts
 * that wait in vain), NO_ARRIVE_CHECK (nor does an arrival), UNCHECKED_RELEASE (the last one queues everybody), SPLIT_DONE
 * (the count of parts is not one atomic step), DONE_BEFORE_KILL (a failing part ends before it has killed the others).
 */
#ifndef PARTS
#define PARTS 3
#endif
#ifndef BARRIERS
#define BARRIERS 2
#endif
#ifndef TIMERS
#define TIMERS 0      /* slices that just end, per part */
#endif

byte waiting[PARTS];  /* tickets of this launch in the core's queue */
bool parked[PARTS];
byte ends[PARTS];
byte arrived = 0, exited = 0;
byte parts_left = PARTS;
byte ended = 0;
bool stopping = false, collected = false;
byte touching = 0;    /* harts that are in code which uses the launch */

inline push(c) {
  atomic { waiting[c]++; assert(waiting[c] == 1) }
}

inline part_done(p) {
  atomic { ends[p]++; assert(ends[p] == 1); touching-- }
#ifdef SPLIT_DONE
  left = parts_left;
  parts_left = left - 1;
  if
  :: left == 1 -> ended++; assert(ended == 1)
  :: else
  fi
#else
  atomic {
    parts_left--;
    if
    :: parts_left == 0 -> ended++; assert(ended == 1)
    :: else
    fi
  }
#endif
}

inline fail() {
  atomic { first = !stopping && ended == 0; stopping = stopping || first }
  if
  :: first ->
    first = false;
    i = 0;
    do
    :: i < PARTS ->
      atomic { was_parked = parked[i]; parked[i] = false }
      if
      :: was_parked -> atomic { was_parked = false; push(i) }
      :: else
      fi;
      i++
    :: else -> i = 0; break
    od
  :: else
  fi
}

inline arrive(p) {
  atomic {
    arrived++;
    last = arrived == PARTS;
    if
    :: last -> arrived = 0
    :: else
    fi;
#ifdef NO_ARRIVE_CHECK
    stuck = false;
#else
    stuck = !last && arrived + exited == PARTS;
#endif
#ifdef NO_KILL_RECHECK
    parked[p] = !last && !stuck;
#else
    parked[p] = !last && !stuck && !stopping;
#endif
    parks = parked[p];
    if
    :: parks -> touching--  /* from here on the part is somebody else's */
    :: else
    fi
  }
  if
  :: parks -> parks = false
  :: else ->
    if
    :: stuck -> stuck = false; fail()
    :: else
    fi;
    if
    :: !last -> atomic { touching--; push(p) }
    :: last ->
      q = 0;
      do
      :: q < PARTS ->
        atomic {
#ifdef UNCHECKED_RELEASE
          again = true;
#else
          again = (q == p) || parked[q];
#endif
          parked[q] = false
        }
        if
        :: again -> atomic { again = false; push(q) }
        :: else
        fi;
        q++
      :: else -> q = 0; break
      od;
      atomic { touching--; last = false }
    fi
  fi
}

inline leave(p) {
  atomic {
    exited++;
#ifdef NO_LEAVE_CHECK
    stuck = false
#else
    stuck = arrived != 0 && arrived + exited == PARTS
#endif
  }
  if
  :: stuck -> stuck = false; fail()
  :: else
  fi;
  part_done(p)
}

inline run_slice(p) {
  atomic { waiting[p] > 0 -> waiting[p]--; touching++; assert(!collected) }
  if
  :: stopping -> part_done(p)
  :: else ->
    if  /* what the kernel does in this slice */
    :: leave(p)
    :: barriers < BARRIERS -> barriers++; arrive(p)
    :: timers < TIMERS -> timers++; atomic { touching--; push(p) }
    :: true ->
#ifdef DONE_BEFORE_KILL
      part_done(p);
      touching++;
      fail();
      touching--
#else
      fail();
      part_done(p)
#endif
    fi
  fi
}

proctype core(byte p) {
  byte i, q, left, barriers = 0, timers = 0;
  bool last, stuck, parks, again, was_parked, first;
  do
  :: collected -> break
  :: waiting[p] > 0 -> run_slice(p)
  od
}

proctype hart0() {
  byte i, q, left, barriers = 0, timers = 0;
  bool last, stuck, parks, again, was_parked, first, may_stop;
  if  /* decided beforehand: a stop that may still come would hide a part that nothing else wakes */
  :: may_stop = true
  :: may_stop = false
  fi;
  do
  :: ended == 1 ->
    atomic {
      assert(touching == 0);
      assert(parts_left == 0);
      for (i : 0 .. PARTS - 1) {
        assert(ends[i] == 1 && waiting[i] == 0 && !parked[i])
      }
      collected = true
    }
    break
  :: ended == 0 && may_stop -> may_stop = false; touching++; fail(); touching--
  :: ended == 0 && waiting[0] > 0 -> run_slice(0)
  od
}

init {
  byte c;
  atomic {
    for (c : 0 .. PARTS - 1) { waiting[c] = 1 }
    run hart0();
    for (c : 1 .. PARTS - 1) { run core(c) }
  }
}
