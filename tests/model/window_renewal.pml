/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows that are plugged for each owner and unplugged behind it, peers that are never used again, and resets of the card
 * at any moment (protocol §1).
 *
 * Mirrors firmware/core/binding.cpp (bind_slot, retire_slot, finish_retirements), slot_table.cpp (what survives a reset) and
 * function_commands.cpp (bind_to); host_driver/broker/broker_renewal.cpp and broker_functions.cpp (retire, bind, what is
 * repeated behind a restart); qemu/machine_renewal.cpp (plug, gone, connect, disconnect). The emulator reads messages about
 * peers whenever it gets to it. A command that a reset interrupts is not answered: the broker retires and binds anew.
 * Somebody repeats old SLOT_BIND commands at any moment (not with NO_STALE).
 *
 * Properties: a window serves one owner; what the card binds is the window that was meant; a function is handed out only
 * when its new peer got a doorbell; no peer id is announced twice; a port is plugged only when it is empty; whatever
 * a boot finds bound is plugged; nobody waits for ever (that would be a deadlock).
 *
 * Mutants: NO_SERIAL (any serial is taken), FORGETFUL (the table does not survive a reset), NO_UNPLUG (a retirement leaves
 * the window plugged), NO_FINISH (a boot does not finish what was interrupted), UNPLUG_FIRST (unplugged before it is
 * marked), EARLY_BIND (bound before the emulator has read the peer's message), REUSE_ID (a second try takes the same peer
 * id), UNCHECKED_PLUG (a port whose window was perhaps never bound is taken for empty).
 */
#ifndef FUNCTIONS
#define FUNCTIONS 1
#endif
#ifndef PORTS
#define PORTS 2
#endif
#ifndef OWNERS
#define OWNERS 2      /* of each function */
#endif
#ifndef RESETS
#define RESETS 1
#endif
#define NONE 255
#define SERIALS 12
#define IDS 8         /* of each function */

/* A port's use. */
#define FREE 0
#define BOUND 1
#define LEAVING 2

/* A peer id, as the emulator sees it. */
#define NEW 0
#define SAID 1        /* announced: the message is in the socket */
#define KNOWN 2
#define END_SAID 3
#define ENDED 4

mtype = { retire, bind, done, refused, lost };
chan command = [0] of { mtype, byte, byte, byte, byte, byte };  /* what, function, port, serial, peer, who asks */
chan reply[FUNCTIONS + 1] = [1] of { mtype };

byte plugged[PORTS];         /* serial of the window; 0: empty */
byte use[PORTS];             /* the firmware's table, persistent */
byte last[PORTS];
byte place[FUNCTIONS];       /* port; likewise */
byte peer[FUNCTIONS];
byte signalled[FUNCTIONS];       /* the last peer that got a doorbell */
byte id_state[FUNCTIONS * IDS];
bool free_port[PORTS];           /* the broker's */
byte next_serial = 1;
byte served[SERIALS];        /* owners of a window */
byte port_of[SERIALS];
byte resets = RESETS;
byte over = 0;               /* functions that have had all their owners */

#define ID(f, id) id_state[(f) * IDS + (id)]

/* ---- the card ---------------------------------------------------------------------------------------------------------- */

#define MAY_RESET if :: resets > 0 -> resets--; goto crashed :: true fi

#ifdef NO_SERIAL
#define USABLE(p, s) (use[p] == FREE && plugged[p] != 0)
#else
#define USABLE(p, s) (use[p] == FREE && plugged[p] != 0 && s > last[p])
#endif

proctype firmware() {
  byte f, p, s, id, who, i;
end:
  do
  :: command?retire,f,p,s,id,who ->
    p = place[f];
    if
    :: p != NONE ->
#ifdef UNPLUG_FIRST
      plugged[p] = 0;
      MAY_RESET;
      atomic { place[f] = NONE; use[p] = FREE }
#else
      atomic { place[f] = NONE; use[p] = LEAVING };
      MAY_RESET;
#ifndef NO_UNPLUG
      plugged[p] = 0;
#endif
      MAY_RESET;
      use[p] = FREE
#endif
    :: else
    fi;
    MAY_RESET;
    reply[who]!done
  :: command?bind,f,p,s,id,who ->
    if
    :: place[f] == p && last[p] == s -> reply[who]!done   /* the same again */
    :: place[f] != NONE && !(place[f] == p && last[p] == s) -> reply[who]!refused
    :: place[f] == NONE && !USABLE(p, s) -> reply[who]!refused
    :: place[f] == NONE && USABLE(p, s) ->
      MAY_RESET;
      atomic {
        assert(plugged[p] == s);
        assert(served[s] == 0);
        last[p] = s; use[p] = BOUND; place[f] = p; peer[f] = id
      };
      MAY_RESET;
      if
      :: ID(f, id) == KNOWN -> signalled[f] = id
      :: else                                            /* the emulator knows no such peer */
      fi;
      MAY_RESET;
      reply[who]!done
    fi
  :: resets > 0 -> resets--; who = NONE; goto crashed
  od;
crashed:
  /* The next boot. */
  atomic {
    i = 0;
    do
    :: i < PORTS ->
#ifdef FORGETFUL
      use[i] = FREE; last[i] = 0;
#endif
#ifndef NO_FINISH
      if
      :: use[i] == LEAVING -> plugged[i] = 0; use[i] = FREE
      :: else
      fi;
#endif
      i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < FUNCTIONS ->
#ifdef FORGETFUL
      place[i] = NONE;
#endif
      if
      :: place[i] != NONE -> assert(plugged[place[i]] != 0)
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  };
  if
  :: who != NONE -> reply[who]!lost
  :: else
  fi;
  who = NONE;
  goto end
}

/* ---- the emulator's main loop ------------------------------------------------------------------------------------------ */

proctype emulator(byte f) {
  byte id;
end:
  do
  :: atomic { (ID(f, 0) == SAID || ID(f, 0) == END_SAID) -> ID(f, 0) = ID(f, 0) + 1 }
  :: atomic { (ID(f, 1) == SAID || ID(f, 1) == END_SAID) -> ID(f, 1) = ID(f, 1) + 1 }
  :: atomic { (ID(f, 2) == SAID || ID(f, 2) == END_SAID) -> ID(f, 2) = ID(f, 2) + 1 }
  :: atomic { (ID(f, 3) == SAID || ID(f, 3) == END_SAID) -> ID(f, 3) = ID(f, 3) + 1 }
  :: atomic { (ID(f, 4) == SAID || ID(f, 4) == END_SAID) -> ID(f, 4) = ID(f, 4) + 1 }
  od
}

/* ---- the broker, one process for each function ------------------------------------------------------------------------- */

inline retire_it() {
  do
  :: command!retire,f,0,0,0,f;
    reply[f]?answer;
    if
    :: answer == done -> break
    :: answer == lost           /* again, behind the restart */
    fi
  od
}

inline plug() {
  atomic {
    if
    :: free_port[0] -> port = 0
    :: free_port[1] -> port = 1
#if PORTS > 2
    :: free_port[2] -> port = 2
#endif
    fi;
    free_port[port] = false;
    assert(plugged[port] == 0);
    serial = next_serial; next_serial++;
    plugged[port] = serial;
    port_of[serial] = port
  }
}

inline connect_peer() {
  atomic { assert(ID(f, id) == NEW); ID(f, id) = SAID };
#ifndef EARLY_BIND
  ID(f, id) == KNOWN
#endif
}

inline let_go() {
  plugged[port] == 0 -> free_port[port] = true
}

proctype broker(byte f) {
  byte owners = 0, port, serial = 0, id = 0;
  mtype answer;
  do
  :: owners == OWNERS -> break
  :: owners < OWNERS ->
    if
    :: serial == 0 -> plug()
    :: serial != 0              /* plugged for an earlier try, and not bound */
    fi;
    connect_peer();
    command!bind,f,port,serial,id,f;
    reply[f]?answer;
    assert(answer != refused);
    if
    :: answer == done ->
      atomic {
        assert(signalled[f] == id);
        assert(place[f] == port && plugged[port] == serial);
        served[serial]++;
        assert(served[serial] == 1)
      };
      owners++;                 /* … and goes, and keeps its mapping */
      retire_it();
      atomic { assert(place[f] == NONE); ID(f, id) = END_SAID; id++ };
      let_go();
      serial = 0
    :: answer == lost ->        /* bound or not: only the card knows */
      retire_it();
#ifndef REUSE_ID
      atomic { ID(f, id) = END_SAID; id++ };
#endif
#ifdef UNCHECKED_PLUG
      free_port[port] = true; serial = 0
#else
      if
      :: plugged[port] == 0 -> free_port[port] = true; serial = 0
      :: plugged[port] != 0     /* it was never bound, and serves the next try */
      fi
#endif
    fi
  od;
  over++
}

/* Repeats commands of the past. */
proctype stale() {
  byte f = 0, s = 0;
  mtype answer;
end:
  do
  :: f = 0
  :: f = FUNCTIONS - 1
  :: s < next_serial && s < SERIALS - 1 -> s++
  :: s > 0 -> s--
  :: served[s] == 1 && over < FUNCTIONS ->
    command!bind,f,port_of[s],s,0,FUNCTIONS;
    reply[FUNCTIONS]?answer
  od
}

init {
  byte i;
  atomic {
    for (i : 0 .. PORTS - 1) { free_port[i] = true };
    for (i : 0 .. FUNCTIONS - 1) { place[i] = NONE; signalled[i] = NONE };
    run firmware();
    for (i : 0 .. FUNCTIONS - 1) { run emulator(i); run broker(i) };
#ifndef NO_STALE
    run stale();
#endif
    i = 0
  };
  over == FUNCTIONS             /* all were served */
}
