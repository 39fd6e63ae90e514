/* SPDX-License-Identifier: Apache-2.0
 *
 * Grants of events (protocol §6, EVENT_GRANT): streams of one function, the grantee, wait for timelines of others.
 *
 * Mirrors: firmware/core/event_grants.cpp make(), find(), call_waiters(), revoke_place(); events.cpp step_wait();
 * stream_table.cpp park(); what the reset of an owner or of the grantee does to grants and waits.
 *
 * Hart 0 does one thing at a time, so that there is one process. Nondeterministic is what M grants and revokes, when an
 * owner signals, when a function is reset, and which handle a wait names: any that was ever made, at any time.
 *
 * Shown: a wait is fulfilled only by the timeline that its handle was made for, while the grant lasts, and when that
 * has come so far. A stream that is held has a grant, and its value has not come: no wake-up was lost, neither by a
 * signal nor by a revocation. Cycles among waits are events.pml's.
 *
 * Mutants: NO_EPOCH (the epoch of a handle is not compared), REUSE_EPOCH (epochs are given again), NO_CALL (a signal
 * wakes nobody), NO_LOWEST (a wait that is held does not lower the value from which on a signal looks for waiters),
 * NO_CALL_ON_REVOKE (who waits by a grant is held on), NO_REVOKE_OF_OWNER, NO_REVOKE_OF_GRANTEE (the reset of that
 * function leaves its grants).
 */
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef TIMELINES
#define TIMELINES 2
#endif
#ifndef PLACES
#define PLACES 1
#endif
#ifndef MADE
#define MADE 3 /* grants that are made in all */
#endif
#ifndef WAITS
#define WAITS 3 /* waits that are submitted in all */
#endif
#define VALUES 2
#define RESETS 2
#define NEVER 255

/* The grantee's table. epoch 0: no grant. */
byte epoch[PLACES];
byte timeline[PLACES];
byte lowest[PLACES];
byte made = 0;

/* Handles, in the order in which they were made: what they were made for. Nothing that the card knows. */
byte handle_place[MADE];
byte handle_epoch[MADE];
byte handle_of[MADE];
bool handle_lasts[MADE];

byte value[TIMELINES];

/* Streams of the grantee: one wait each. */
mtype = { Idle, Runnable, Held };
mtype state[WAITERS] = Idle;
byte named[WAITERS]; /* handle */
byte wanted[WAITERS];

byte waits = 0, resets = 0, signals = 0;

hidden byte p, h, w, on, i;
hidden byte found;

#define PLACE handle_place[named[w]]
#define EPOCH handle_epoch[named[w]]

inline choose(which, count) {
  which = 0;
  do
  :: which + 1 < count -> which++
  :: break
  od
}

inline make_grant() {
  p = 0;
  do
  :: p < PLACES && epoch[p] != 0 -> p++
  :: else -> break
  od;
  if
  :: p < PLACES ->
#ifdef REUSE_EPOCH
    epoch[p] = 1;
#else
    epoch[p] = made + 1;
#endif
    timeline[p] = on;
    lowest[p] = NEVER;
    handle_place[made] = p;
    handle_epoch[made] = epoch[p];
    handle_of[made] = on;
    handle_lasts[made] = true;
    made++
  :: else
  fi
}

/* revoke_place() of p: in list order, which does not matter to anybody. */
inline revoke() {
  h = 0;
  do
  :: h < made ->
    if
    :: handle_place[h] == p && handle_epoch[h] == epoch[p] && handle_of[h] == timeline[p] -> handle_lasts[h] = false
    :: else
    fi;
    h++
  :: else -> break
  od;
#ifndef NO_CALL_ON_REVOKE
  w = 0;
  do
  :: w < WAITERS ->
    if
    :: state[w] == Held && PLACE == p -> state[w] = Runnable
    :: else
    fi;
    w++
  :: else -> break
  od;
#endif
  epoch[p] = 0
}

inline revoke_all_of(whose) {
  p = 0;
  do
  :: p < PLACES ->
    if
    :: epoch[p] != 0 && timeline[p] == whose -> revoke()
    :: else
    fi;
    p++
  :: else -> break
  od
}

/* What really ends with a reset of this owner, whatever the card does. */
inline forget_handles_of(whose) {
  h = 0;
  do
  :: h < made ->
    if
    :: handle_of[h] == whose -> handle_lasts[h] = false
    :: else
    fi;
    h++
  :: else -> break
  od
}

inline reset_owner() {
#ifndef NO_REVOKE_OF_OWNER
  revoke_all_of(on);
#endif
  forget_handles_of(on);
  value[on] = 0
}

inline reset_grantee() {
  p = 0;
  do
  :: p < PLACES ->
    if
#ifndef NO_REVOKE_OF_GRANTEE
    :: epoch[p] != 0 -> revoke()
#endif
    :: else
    fi;
    p++
  :: else -> break
  od;
  h = 0;
  do
  :: h < made -> handle_lasts[h] = false; h++
  :: else -> break
  od;
  w = 0;
  do
  :: w < WAITERS -> state[w] = Idle; w++
  :: else -> break
  od
}

inline signal() {
  value[on]++;
#ifndef NO_CALL
  p = 0;
  do
  :: p < PLACES ->
    if
    :: epoch[p] != 0 && timeline[p] == on && value[on] >= lowest[p] ->
      lowest[p] = NEVER;
      w = 0;
      do
      :: w < WAITERS ->
        if
        :: state[w] == Held && PLACE == p && wanted[w] <= value[on] -> state[w] = Runnable
        :: state[w] == Held && PLACE == p && wanted[w] > value[on] && wanted[w] < lowest[p] -> lowest[p] = wanted[w]
        :: else
        fi;
        w++
      :: else -> break
      od
    :: else
    fi;
    p++
  :: else -> break
  od
#endif
}

inline step_wait() {
#ifdef NO_EPOCH
  found = epoch[PLACE] != 0;
#else
  found = epoch[PLACE] == EPOCH && epoch[PLACE] != 0;
#endif
  if
  :: !found -> state[w] = Idle /* ends: the grant was revoked */
  :: else ->
    on = timeline[PLACE];
    assert(handle_lasts[named[w]]);
    assert(on == handle_of[named[w]]);
    if
    :: wanted[w] <= value[on] -> state[w] = Idle
    :: else ->
      state[w] = Held;
#ifndef NO_LOWEST
      if
      :: wanted[w] < lowest[PLACE] -> lowest[PLACE] = wanted[w]
      :: else
      fi
#endif
    fi
  fi
}

inline look() {
  w = 0;
  do
  :: w < WAITERS ->
    if
    :: state[w] == Held ->
      assert(handle_lasts[named[w]]);
      assert(value[handle_of[named[w]]] < wanted[w])
    :: else
    fi;
    w++
  :: else -> break
  od
}

active proctype card() {
  byte a, b, c;
  do
  :: atomic {
      if
      :: made < MADE -> choose(a, TIMELINES); skip; d_step { on = a; make_grant(); skip }
      :: choose(a, PLACES); skip;
        d_step {
          p = a;
          if
          :: epoch[p] != 0 -> revoke()
          :: else
          fi;
          skip
        }
      :: resets < RESETS -> choose(a, TIMELINES); skip; d_step { resets++; on = a; reset_owner(); skip }
      :: resets < RESETS -> d_step { resets++; reset_grantee(); skip }
      :: choose(a, TIMELINES);
        if
        :: value[a] < VALUES && signals < 2 * VALUES -> d_step { signals++; on = a; signal(); skip }
        :: else
        fi
      :: waits < WAITS && made > 0 ->
        choose(a, WAITERS);
        choose(b, made);
        choose(c, VALUES);
        if
        :: state[a] == Idle -> d_step { waits++; named[a] = b; wanted[a] = c + 1; state[a] = Runnable }
        :: else
        fi
      :: choose(a, WAITERS);
        if
        :: state[a] == Runnable -> d_step { w = a; step_wait(); skip }
        :: else
        fi
      fi;
      a = 0;
      b = 0;
      c = 0;
      d_step { look(); skip }
    }
  od
}
