/* SPDX-License-Identifier: Apache-2.0
 *
 * A block starts: the card publishes its sequence number and then has its first side effect, by a transfer on hart 0 or by
 * a kernel on another hart. The card dies at any moment. The driver reads what reached memory and calls the block LOST
 * (never started) or INDETERMINATE. Stores of a hart become visible in any order unless it orders them.
 *
 * Mirrors firmware/core/steps.hpp: publish_started(), then transfers.cpp move_step() or Launches::release() (whose lock has
 * release order).
 *
 * Property: memory that a side effect has reached never belongs to a block that the driver calls LOST.
 *
 * Mutant: NO_FENCE (release order on the word alone, which orders nothing behind it).
 */
bool started_stored = false, started = false;      /* by hart 0, and as the driver sees it */
bool effect_stored = false, effect = false;
bool ticket = false;
bool dead = false;

inline publish_started() {
  started_stored = true;
#ifndef NO_FENCE
  started || dead -> skip                          /* fence: visible before anything behind it is */
#endif
}

active proctype transfer() {
  publish_started();
  if
  :: effect_stored = true                          /* moves bytes itself */
  :: ticket = true                                 /* launches a kernel */
  fi
}

active proctype kernel() {
end:
  ticket -> effect_stored = true
}

active proctype memory() {
end:
  do
  :: atomic { !dead && started_stored && !started -> started = true }
  :: atomic { !dead && effect_stored && !effect -> effect = true }
  od
}

active proctype driver() {
  dead = true;
  assert(!effect || started)
}
