/* SPDX-License-Identifier: Apache-2.0
 *
 * Sleeping and waking between a driver and the card (protocol §8), with event suppression on both sides.
 *
 * Mirrors, card side: firmware/core/main_loop.cpp armed_and_quiet(), idle(), iteration.cpp serve(); firmware/core/packed_queue.cpp arm(),
 * disarm(), push_used(), take_notification(). Host side: protocol §8, HOST submit and HOST wait.
 *
 * Positions run free instead of wrapping, so that wants_notification() is "the armed position lies in [old, new)".
 * Memory is sequentially consistent here. What a missing store→load fence allows is modelled as what the machine then
 * does: the later load is made before the earlier store is seen.
 *
 * Variants. LOSSY: any doorbell may be lost. TIMERS: every sleep may also end by its timer.
 * Mutants: NO_RECHECK, NO_ARM_FENCE (card), NO_SUBMIT_FENCE (host), NO_SIGNAL_FENCE (card), NO_WAIT_FENCE (host),
 * EQUAL_EVENT (rings only when the new position is just behind the armed one).
 */
#ifndef N
#define N 4   /* blocks that the host submits, one or two at a time */
#endif
#define OFF 255

byte avail = 0;          /* published by the host */
byte used = 0;           /* published by the card */
byte card_event = OFF;   /* device area: the position whose publication the card wants to be told of */
byte host_event = OFF;   /* driver area */
bool card_doorbell = false;  /* pending, as an interrupt or a readable pipe is */
bool host_doorbell = false;
bool done = false;

#ifdef LOSSY
#define RING(doorbell) if :: doorbell = true :: skip fi
#else
#define RING(doorbell) doorbell = true
#endif

#ifdef TIMERS
#define SLEEP(doorbell) if :: doorbell -> doorbell = false :: true fi
#else
#define SLEEP(doorbell) doorbell -> doorbell = false
#endif

#ifdef EQUAL_EVENT
#define PASSES(event, old, new) (event != OFF && event + 1 == new)
#else
#define PASSES(event, old, new) (event != OFF && event >= old && event < new)
#endif

inline publish() {
  if
  :: avail = old + 1
  :: old + 2 <= N -> avail = old + 2
  fi
}

active proctype host() {
  byte old, event, last = 0;
  do
  :: avail == N -> break
  :: else ->
    old = avail;
#ifdef NO_SUBMIT_FENCE
    event = card_event;
    publish();
#else
    publish();
    event = card_event;
#endif
    if
    :: PASSES(event, old, avail) -> RING(card_doorbell)
    :: else
    fi;
    do  /* until everything submitted has come back */
    :: last == avail -> break
    :: last != avail && used != last -> last = used
    :: last != avail && used == last ->
#ifdef NO_WAIT_FENCE
      if
      :: used != last -> skip
      :: used == last -> host_event = last; SLEEP(host_doorbell)
      fi;
#else
      host_event = last;
      if
      :: used != last -> skip
      :: used == last -> SLEEP(host_doorbell)
      fi;
#endif
      host_event = OFF
    od
  od;
  done = true
}

active proctype card() {
  byte next = 0, old, event;
endserve:
  do
  :: next != avail ->
    old = next;
#ifdef NO_SIGNAL_FENCE
    event = host_event;
#endif
    do  /* an iteration takes what is there, or as much as its budget allows */
    :: next != avail -> next++; used = next
    :: next != old -> break
    od;
#ifndef NO_SIGNAL_FENCE
    event = host_event;
#endif
    if
    :: PASSES(event, old, used) -> RING(host_doorbell)
    :: else
    fi
  :: next == avail ->
#ifdef NO_ARM_FENCE
    if
    :: next != avail -> skip
    :: next == avail ->
      card_event = next;
endasleep0:
      SLEEP(card_doorbell)
    fi;
#else
    card_event = next;
#ifdef NO_RECHECK
endasleep1:
    SLEEP(card_doorbell);
#else
    if
    :: next != avail -> skip
    :: next == avail ->
endasleep2:
      SLEEP(card_doorbell)
    fi;
#endif
#endif
    card_event = OFF  /* lazily: a doorbell too many is harmless */
  od
}

/* Nothing lost: without timers a lost wake-up is a deadlock, which every run looks for. With timers: */
ltl everything_ends { <> done }
