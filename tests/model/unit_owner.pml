/* SPDX-License-Identifier: Apache-2.0
 *
 * A hart saves the registers that a suspended kernel left in it, and gives them to somebody else, while hart 0 drops that
 * kernel's context and hands its memory to a new owner. Stores become visible in any order unless the code orders them,
 * as RISC-V's weak memory model allows (and no x86 host under the emulator shows).
 *
 * Mirrors firmware/arch/riscv/unit_owner.hpp: spill_owner (save, then the owner's word, under the lock), forget_owner (a
 * look without the lock, then the word under it). The lock's release and acquire order what stands before and behind it.
 *
 * Property: once forget_owner() has returned, no store of the save reaches the memory.
 *
 * Mutants: RELAXED_OWNER (the word is stored without release), NO_LOOK_ORDER (it is looked at without acquire, so the
 * memory may be written before the look), NO_LOCK (forget_owner() does not wait for a save under way).
 */
#define A 1           /* the context that is dropped */
#define OTHER 2

byte owner = A;       /* as every hart sees it */
bool locked = false;
bool save_pending = false, save_visible = false;   /* the saved registers: on their way to memory, there */
byte owner_pending = A;                            /* what the hart has stored to the word; == owner when visible */
bool reused = false;

/* The hart that takes the registers for another context. */
active proctype hart() {
  atomic { !locked -> locked = true }
  if
  :: owner_pending == A && owner == A -> save_pending = true
  :: else -> skip
  fi;
#ifndef RELAXED_OWNER
  save_visible || !save_pending -> skip;           /* release: the save is visible before the word is */
#endif
  if
  :: owner == A -> owner_pending = 0
  :: else -> skip
  fi;
  /* unlock has release order: everything before it is visible with it */
  atomic { (!save_pending || save_visible) && owner_pending != A -> owner = 0; locked = false }
}

/* Makes stores visible, in any order. */
active proctype memory() {
end:
  do
  :: atomic { save_pending && !save_visible -> assert(!reused); save_visible = true }
  :: atomic { owner_pending != owner && owner == A -> owner = owner_pending }
  od
}

/* Hart 0: drops the context, then its memory is somebody else's. */
active proctype dropper() {
#ifdef NO_LOOK_ORDER
  reused = true;                                   /* the store overtakes the look */
#endif
  if
  :: owner != A -> skip                            /* acquire */
  :: owner == A ->
#ifndef NO_LOCK
    atomic { !locked -> locked = true };
#endif
    atomic { if :: owner == A -> owner = 0; owner_pending = 0 :: else fi };
#ifndef NO_LOCK
    locked = false
#endif
  fi;
  reused = true
}
