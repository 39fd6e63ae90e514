// SPDX-License-Identifier: Apache-2.0
// The record of a boot that broke, as the next boot finds it: the first boot notes, marks, plants registers and breaks;
// the second one, after the restart, knows what must stand there.
#include <atomic>
#include <cstring>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/persistent.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/probe/probe.hpp"
#include "firmware/probe/timeouts.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"

extern "C" const std::byte probe_planted_load[], probe_planted_push[];

namespace probe {

namespace {

using wire::FatalKind;
using wire::FatalRecord;
using wire::HartState;
using wire::RecordedHart;

constexpr std::uint64_t kEpoch = 77;
constexpr std::uint64_t kPlanted = 0x1111'2222'3333'4444;
constexpr unsigned kNotes = wire::kRecordedEvents + 5;  // the ring has gone round

hal::Context context;

// s2 … s11 hold kPlanted + their number, t0 and t1 too: the ones that the trap code itself uses.
[[noreturn, gnu::noinline]] void plant_and_load() {
  asm volatile(
      "li t0, %0\n"
      ".irp n, 18,19,20,21,22,23,24,25,26,27,6,17\n addi x\\n, t0, \\n\n .endr\n"
      "addi t0, t0, 5\n"
      "li a0, 8\n"
      ".globl probe_planted_load\nprobe_planted_load: ld a1, 0(a0)\n"
      :
      : "i"(kPlanted)
      : "memory");
  __builtin_unreachable();
}

[[noreturn, gnu::noinline]] void push_for_ever() {
  asm volatile(
      "li t0, %0\n addi x18, t0, 18\n"
      "1: addi sp, sp, -16\n"
      ".globl probe_planted_push\nprobe_planted_push: sd t0, 0(sp)\n j 1b\n"
      :
      : "i"(kPlanted)
      : "memory");
  __builtin_unreachable();
}

[[noreturn]] void stand_still() {
  hal::mark(wire::Waypoint::Dma);
  for (;;) asm volatile("" ::: "memory");  // bounded: it stands still on purpose: the other hart has to notice
}

void wait_for_helper(wire::Waypoint waypoint) {
  const std::uint64_t end = hal::now() + kHelperAnswerTicks;
  while (hal::waypoint_of(1) != waypoint && hal::now() < end) asm volatile("pause");
}

// The helper is inside of an endless kernel when this returns.
void keep_helper_in_kernel(const Space& space) {
  std::atomic_ref<std::uint64_t> runs(space.data()[0]);
  runs.store(0, std::memory_order_relaxed);
  space.start(context, probe_kernel_announced_endless, space.data_address());
  helper_run_on(context);
  const std::uint64_t end = hal::now() + kHelperAnswerTicks;
  while (runs.load(std::memory_order_acquire) == 0 && hal::now() < end) asm volatile("pause");
}

[[noreturn]] void break_first_boot(std::string_view what) {
  if (helper_present()) wait_for_helper(wire::Waypoint::Sleep);
  hal::set_after_record(hal::AfterRecord::Restart, kEpoch);
  for (unsigned i = 0; i < kNotes; ++i) hal::note(wire::RecordedEventKind::Launch, i, 2 * i);
  hal::mark(wire::Waypoint::Dispatch);
  if (what == "trap") plant_and_load();
  if (what == "stack") push_for_ever();
  if (what == "assert") hal::panic("asserted");
  if (what == "silent") {
    helper_hang();
    hal::panic("one does not answer");
  }
  if (what == "lock") {
    helper_lock();
    wait_for_helper(wire::Waypoint::Dma);
    hal::panic("one waits for a lock");
  }
  if (what == "kernel") {
    static Space space;
    keep_helper_in_kernel(space);
    hal::panic("one is in a kernel");
  }
  if (what == "stuck") {
    helper_accuse();
    stand_still();
  }
  if (what == "damaged") hal::panic("about to be damaged");
  finish();
}

std::uint64_t place(const std::byte* symbol) { return reinterpret_cast<std::uint64_t>(symbol); }

void check_planted(Proof& proof, const RecordedHart& row) {
  for (const unsigned n : {5u, 6u, 17u, 18u, 19u, 20u, 21u, 22u, 23u, 24u, 25u, 26u, 27u}) {
    proof.expect_equal(row.x[n], kPlanted + n, "a planted register");
  }
  proof.expect_equal(row.x[0], 0, "x0");
  proof.expect_equal(row.x[10], 8, "a0");
  proof.expect_equal(row.pc, place(probe_planted_load), "the pc");
  proof.expect_equal(row.cause, 5, "the cause");
  proof.expect_equal(row.value, 8, "the address");
}

void check_common(Proof& proof, const FatalRecord& record) {
  proof.expect_equal(record.boot_epoch, kEpoch, "the epoch");
  proof.expect_equal(record.hart_count, hal::hart_count(), "the number of harts");
  proof.expect(record.time != 0, "the time");
  proof.expect(std::memcmp(record.build_id, __build_id_begin + 16, 20) == 0, "the build");
  proof.expect(record.build_id[0] != 0 || record.build_id[1] != 0, "a build");
  for (unsigned i = 0; i < wire::kRecordedEvents; ++i) {
    const auto& event = record.events[(record.next_event + i) % wire::kRecordedEvents];
    const unsigned number = kNotes - wire::kRecordedEvents + i;
    proof.expect(event.kind == wire::RecordedEventKind::Launch && event.time != 0, "an event");
    proof.expect_equal(event.a, number, "what the event says");
    proof.expect_equal(event.b, 2 * number, "what else it says");
  }
  for (unsigned h = record.hart_count; h < wire::kRecordedHarts; ++h) {
    proof.expect(record.harts[h].state == HartState::Absent, "a hart that is not there");
  }
}

void expect_kind(Proof& proof, const FatalRecord& record, FatalKind kind, const char* reason) {
  proof.expect_equal(static_cast<std::uint64_t>(record.kind), static_cast<std::uint64_t>(kind), "the kind");
  proof.expect(std::strcmp(record.reason, reason) == 0, record.reason);
}

void expect_state(Proof& proof, const RecordedHart& row, HartState state, const char* what) {
  proof.expect_equal(static_cast<std::uint64_t>(row.state), static_cast<std::uint64_t>(state), what);
}

void check_stack_words(Proof& proof, const FatalRecord& record) {
  const std::uint64_t bottom = place(__stacks_begin) + 4096;
  const RecordedHart& source = record.harts[0];
  proof.expect(source.x[2] < bottom && source.x[2] + 16 >= bottom, "sp stands at the guard");
  const std::uint64_t skipped = (bottom - source.x[2]) / 8;
  for (std::uint64_t i = skipped; i < wire::kRecordedStackWords; i += 2) {
    proof.expect_equal(record.source_stack[i], kPlanted, "a word of the stack");
  }
}

void check(std::string_view what, const FatalRecord& record) {
  Proof proof("the next boot finds the record of the one that broke");
  check_common(proof, record);
  const RecordedHart& first = record.harts[0];
  const RecordedHart& second = record.harts[1];
  if (what == "trap") {
    expect_kind(proof, record, FatalKind::Trap, "trap in firmware code");
    check_planted(proof, first);
  } else if (what == "stack") {
    expect_kind(proof, record, FatalKind::StackOverflow, "stack overflow");
    proof.expect_equal(first.pc, place(probe_planted_push), "the pc");
    proof.expect_equal(first.x[18], kPlanted + 18, "a planted register");
    check_stack_words(proof, record);
  } else if (what == "assert") {
    expect_kind(proof, record, FatalKind::Assertion, "asserted");
    proof.expect_equal(first.cause, wire::kNoCause, "no cause");
  } else if (what == "silent") {
    expect_kind(proof, record, FatalKind::Assertion, "one does not answer");
  } else if (what == "kernel") {
    expect_kind(proof, record, FatalKind::Assertion, "one is in a kernel");
    expect_state(proof, second, HartState::Kernel, "the state of hart 1");
    proof.expect(second.pc >= wire::kContextWindow, "its pc is the kernel's");
  } else if (what == "lock") {
    expect_kind(proof, record, FatalKind::Assertion, "one waits for a lock");
    expect_state(proof, second, HartState::Firmware, "the state of hart 1");
    proof.expect(second.waypoint == wire::Waypoint::Dma, "what hart 1 did");
  } else if (what == "stuck") {
    expect_kind(proof, record, FatalKind::Watchdog, "accused");
    expect_state(proof, first, HartState::Unknown, "the state of hart 0");
    expect_state(proof, second, HartState::Firmware, "the state of hart 1");
    proof.expect(first.waypoint == wire::Waypoint::Dma, "where hart 0 was last");
    proof.expect_equal(record.waiting_for, 1, "who did not answer");
    return;
  }
  expect_state(proof, first, HartState::Source, "the state of hart 0");
  proof.expect(first.waypoint == wire::Waypoint::Dispatch, "what hart 0 did");
  const bool silent = what == "silent";
  proof.expect_equal(record.waiting_for, silent ? 2 : 0, "who did not answer");
  if (what != "kernel" && what != "lock")
    expect_state(proof, second, silent ? HartState::Unknown : HartState::Asleep, "hart 1");
}

void damage(const FatalRecord& record) {
  Proof proof("a damaged record is none");
  auto* const bytes = reinterpret_cast<std::byte*>(&riscv::persistent_memory().record);
  for (const std::size_t at : {std::size_t{0}, sizeof record / 2, sizeof record - 1}) {
    bytes[at] ^= std::byte{1};
    proof.expect(hal::previous_record() == nullptr, "it is not believed");
    bytes[at] ^= std::byte{1};
    proof.expect(hal::previous_record() == &record, "it is whole again");
  }
}

// Each boot breaks as soon as it has begun: no command would ever be answered.
[[noreturn]] void break_every_boot() {
  hal::set_after_record(hal::AfterRecord::Restart, kEpoch);
  hal::panic("again");
}

}  // namespace

void prove_record(std::string_view what) {
  if (what == "burst") break_every_boot();
  const FatalRecord* record = hal::previous_record();
  if (record == nullptr) break_first_boot(what);
  if (riscv::persistent_memory().boot_count == 2) {
    what == "damaged" ? damage(*record) : check(what, *record);
    if (failures() > 0 || what != "assert") finish();
    // Twice in a row, in another way.
    hal::set_after_record(hal::AfterRecord::Restart, kEpoch + 1);
    plant_and_load();
  }
  {
    Proof proof("a second record replaces the first");
    expect_kind(proof, *record, FatalKind::Trap, "trap in firmware code");
    proof.expect_equal(record->boot_epoch, kEpoch + 1, "the epoch");
    check_planted(proof, record->harts[0]);
    proof.expect_equal(riscv::persistent_memory().restarts_in_a_row, 2, "restarts in a row");
    hal::mark_boot_good();
    proof.expect_equal(riscv::persistent_memory().restarts_in_a_row, 0, "restarts after a good boot");
  }
  finish();
}

}  // namespace probe
