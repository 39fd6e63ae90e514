// SPDX-License-Identifier: Apache-2.0
// A hart that stops itself does it with a breakpoint: so traps, assertions and answers take one way (trap.S), and every
// row of the record holds the registers of the very place.
#include "firmware/arch/riscv/panic.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "firmware/arch/riscv/boot.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/event_ring.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/persistent.hpp"
#include "firmware/arch/riscv/text_line.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "shared/units.hpp"

std::uint32_t riscv::record_open;

namespace riscv {

namespace {

using wire::FatalKind;
using wire::FatalRecord;
using wire::HartState;
using wire::RecordedHart;

static_assert(wire::kRecordedHarts == MAX_HARTS);

// A hart that is awake answers within microseconds, one that sleeps when the emulating machine gives it time. That it
// gives to the waiting hart as well: only the time in which that one ran counts, which two looks in a row tell.
constexpr std::uint64_t kTimeout = 100 * 1000 * wire::kTicksPerMicrosecond;
constexpr std::uint64_t kLongestLook = 100 * wire::kTicksPerMicrosecond;
constexpr std::uint64_t kGuardBytes = 4096;

std::atomic<std::uint32_t> winner{0};    // 1 + the hart that records
std::atomic<std::uint64_t> answered{0};  // bit h: row h is written
std::atomic<bool> restart_after{false};
std::atomic<std::uint64_t> current_boot_epoch{0};  // 0: the card does not serve yet

FatalRecord& record() { return persistent_memory().record; }
std::uint64_t bit(std::uint64_t hart) { return std::uint64_t{1} << hart; }

std::uint64_t stack_begin(std::uint64_t hart) {
  return reinterpret_cast<std::uint64_t>(__stacks_begin) + hart * STACK_BYTES;
}

void write_row(const HartLocal& hart, HartState state, const TrapFrame& frame) {
  RecordedHart& row = record().harts[hart.hart];
  row.state = state;
  row.waypoint = hart.waypoint;
  row.pc = read_csr<Csr::kMepc>();
  row.status = read_csr<Csr::kMstatus>();
  row.cause = hart.end == End::None ? read_csr<Csr::kMcause>() : wire::kNoCause;
  row.value = hart.end == End::None ? read_csr<Csr::kMtval>() : 0;
  std::memcpy(row.x, frame.x, sizeof row.x);
}

[[noreturn]] void answered_and_parked(const HartLocal& hart) {
  answered.fetch_or(bit(hart.hart), std::memory_order_release);
  riscv_park();
}

// ---- the hart that records ------------------------------------------------------------------------------------------

FatalKind kind_of(const HartLocal& hart) {
  switch (hart.end) {
    case End::Assertion: return FatalKind::Assertion;
    case End::Stuck: return FatalKind::Watchdog;
    case End::None:
    case End::Asked: break;
  }
  const std::uint64_t guard = stack_begin(hart.hart);
  const std::uint64_t value = read_csr<Csr::kMtval>();
  const bool access = read_csr<Csr::kMcause>() == static_cast<std::uint64_t>(Cause::kStoreAccess) ||
                      read_csr<Csr::kMcause>() == static_cast<std::uint64_t>(Cause::kLoadAccess);
  return access && value >= guard && value < guard + kGuardBytes ? FatalKind::StackOverflow : FatalKind::Trap;
}

void open_record(const HartLocal& hart) {
  FatalRecord& fatal = record();
  std::memset(&fatal, 0, sizeof fatal);
  fatal.kind = kind_of(hart);
  fatal.time = hal::now();
  fatal.source = fatal.kind == FatalKind::Watchdog ? hart.stuck_hart : static_cast<std::uint32_t>(hart.hart);
  fatal.hart_count = hal::hart_count();
  const std::uint64_t epoch = current_boot_epoch.load(std::memory_order_relaxed);
  fatal.boot_epoch = epoch != 0 ? epoch : persistent_memory().boot_count;
  const char* reason = fatal.kind == FatalKind::StackOverflow ? "stack overflow" : "trap in firmware code";
  std::strncpy(fatal.reason, hart.end_reason != nullptr ? hart.end_reason : reason, sizeof fatal.reason - 1);
  for (unsigned h = fatal.hart_count; h < wire::kRecordedHarts; ++h) fatal.harts[h].state = HartState::Absent;
  std::atomic_ref(record_open).store(1, std::memory_order_release);
}

// Everybody is asked; who does not answer in time is named.
void gather(const HartLocal& me) {
  FatalRecord& fatal = record();
  std::uint64_t wanted = 0;
  for (unsigned h = 0; h < fatal.hart_count; ++h) {
    if (h == me.hart) continue;
    wanted |= bit(h);
    imsic_send(h, kWakeIdentity);
  }
  std::uint64_t ran = 0;
  for (std::uint64_t last = hal::now();
       (answered.load(std::memory_order_acquire) & wanted) != wanted && ran < kTimeout;) {
    const std::uint64_t now = hal::now();
    ran += std::min(now - last, kLongestLook);
    last = now;
    asm volatile("pause");
  }
  fatal.waiting_for = wanted & ~answered.load(std::memory_order_acquire);
  for (unsigned h = 0; h < fatal.hart_count; ++h) {
    if ((fatal.waiting_for & bit(h)) != 0) fatal.harts[h].waypoint = hal::waypoint_of(h);
  }
}

// Upwards from the source's sp. What lies in the guard can not be read: it stays zero.
void copy_stack() {
  FatalRecord& fatal = record();
  const std::uint64_t begin = stack_begin(fatal.source);
  const std::uint64_t sp = fatal.harts[fatal.source].x[2];
  if (sp % sizeof(std::uint64_t) != 0 || sp < begin || sp >= begin + STACK_BYTES) return;
  const std::uint64_t words = std::min<std::uint64_t>((begin + STACK_BYTES - sp) / 8, wire::kRecordedStackWords);
  for (std::uint64_t i = 0; i < words; ++i) {
    const std::uint64_t at = sp + 8 * i;
    if (at >= begin + kGuardBytes) fatal.source_stack[i] = *reinterpret_cast<const std::uint64_t*>(at);
  }
}

// ELF note: three words (sizes of name and description, type), the name "GNU", the identity.
void copy_build_id() {
  constexpr std::size_t kHeader = 16;
  FatalRecord& fatal = record();
  const auto bytes = static_cast<std::size_t>(__build_id_end - __build_id_begin);
  if (bytes <= kHeader) return;
  std::memcpy(fatal.build_id, __build_id_begin + kHeader, std::min(bytes - kHeader, sizeof fatal.build_id));
}

void seal() {
  FatalRecord& fatal = record();
  fatal.magic = wire::kFatalRecordMagic;
  fatal.version = wire::kFatalRecordVersion;
  fatal.bytes = sizeof fatal;
  fatal.crc32c = checksum(fatal);
}

void say(const HartLocal& me) {
  const FatalRecord& fatal = record();
  const RecordedHart& row = fatal.harts[me.hart];
  TextLine line;
  line.text("PANIC hart ").decimal(fatal.source).text(": ").text(fatal.reason);
  if (row.cause != wire::kNoCause) line.text(", cause ").hex(row.cause).text(", value ").hex(row.value);
  line.text(", pc ").hex(row.pc).text(", ra ").hex(row.x[1]).text(", sp ").hex(row.x[2]);
  if (fatal.waiting_for != 0) line.text(", no answer from harts ").hex(fatal.waiting_for);
  hal::log(line.c_str());
}

[[noreturn]] void end_boot() {
  if (!restart_after.load(std::memory_order_relaxed)) hal::exit(kExitPanic);
  if (!count_restart()) {
    hal::log("PANIC: restarted too often in a row, giving up");
    hal::exit(kExitPanic);
  }
  hal::restart_board();
}

[[noreturn]] void record_and_end(const HartLocal& me, const TrapFrame& frame) {
  open_record(me);
  write_row(me, me.end == End::Stuck ? HartState::Firmware : HartState::Source, frame);
  gather(me);
  copy_events(record());
  copy_stack();
  copy_build_id();
  seal();
  say(me);
  end_boot();
}

// Lost the race for the record: it is opened within microseconds, unless the winner broke while opening it.
void wait_for_open_record() {
  const std::uint64_t end = hal::now() + kTimeout;
  while (!panicking()) {
    if (hal::now() > end) riscv_park();
  }
}

[[noreturn]] void end_itself(End how, const char* reason) {
  HartLocal& hart = local();
  hart.end = how;
  hart.end_reason = reason;
  asm volatile("ebreak" ::: "memory");
  __builtin_unreachable();
}

}  // namespace

void leave_registers(const HartLocal& hart, const hal::Context& context) {
  RecordedHart& row = record().harts[hart.hart];
  row.state = HartState::Kernel;
  row.waypoint = hart.waypoint;
  row.pc = context.integer[CTX_PC / 8];
  row.status = hart.status;
  row.cause = hart.cause;
  row.value = hart.value;
  std::memcpy(&row.x[1], context.integer.data(), sizeof row.x - sizeof row.x[0]);
  answered_and_parked(hart);
}

}  // namespace riscv

void riscv_firmware_trap(const riscv::TrapFrame* frame) {
  using riscv::End;
  const riscv::HartLocal& hart = riscv::local();
  std::uint32_t nobody = 0;
  const auto me = static_cast<std::uint32_t>(hart.hart) + 1;
  if (hart.end != End::Asked && riscv::winner.compare_exchange_strong(nobody, me)) riscv::record_and_end(hart, *frame);
  riscv::wait_for_open_record();
  const bool asleep = hart.end == End::Asked && hart.waypoint == wire::Waypoint::Sleep;
  riscv::write_row(hart, asleep ? wire::HartState::Asleep : wire::HartState::Firmware, *frame);
  riscv::answered_and_parked(hart);
}

namespace hal {

void panic(const char* reason) { riscv::end_itself(riscv::End::Assertion, reason); }

void stuck(unsigned hart, const char* reason) {
  riscv::local().stuck_hart = hart;
  riscv::end_itself(riscv::End::Stuck, reason);
}

void stop_if_recording() { riscv::park_if_panicking(); }

void set_after_record(AfterRecord what, std::uint64_t boot_epoch) {
  riscv::current_boot_epoch.store(boot_epoch, std::memory_order_relaxed);
  riscv::restart_after.store(what == AfterRecord::Restart, std::memory_order_relaxed);
}

}  // namespace hal
