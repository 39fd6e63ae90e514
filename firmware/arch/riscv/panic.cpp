// SPDX-License-Identifier: Apache-2.0
#include "firmware/arch/riscv/panic.hpp"

#include <cstring>

#include "firmware/arch/riscv/boot.hpp"
#include "firmware/arch/riscv/csr.hpp"
#include "firmware/arch/riscv/imsic.hpp"
#include "firmware/arch/riscv/persistent.hpp"
#include "firmware/arch/riscv/text_line.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "shared/crc32c.hpp"

std::uint32_t riscv_panic_winner;
riscv::TrapFrame riscv_trap_frame;
alignas(16) std::byte riscv_panic_stack[PANIC_STACK_BYTES];

namespace riscv {

namespace {

std::uint32_t record_crc(const PanicRecord& record) {
  PanicRecord copy = record;
  copy.crc32c = 0;
  return wire::crc32c(0, &copy, sizeof copy);
}

void complete_and_store(PanicRecord& record, const char* reason) {
  record.magic = PanicRecord::kMagic;
  record.bytes = sizeof record;
  record.boot_count = persistent_memory().boot_count;
  record.time = hal::now();
  record.hart = hal::hart_id();
  record.status = read_csr<Csr::kMstatus>();
  std::strncpy(record.reason, reason, sizeof record.reason - 1);
  record.crc32c = record_crc(record);
  persistent_memory().panic = record;
}

[[noreturn]] void record_and_exit(PanicRecord& record, const char* reason) {
  complete_and_store(record, reason);
  for (unsigned hart = 0; hart < hal::hart_count(); ++hart) {
    if (hart != record.hart) imsic_send(hart, kWakeIdentity);
  }
  TextLine line;
  line.text("PANIC hart ").decimal(record.hart).text(": ").text(reason);
  if (record.cause != PanicRecord::kNoCause) line.text(", cause ").hex(record.cause).text(", value ").hex(record.value);
  line.text(", pc ").hex(record.pc).text(", ra ").hex(record.x[1]).text(", sp ").hex(record.x[2]);
  hal::log(line.c_str());
  hal::exit(kExitPanic);
}

// One hart records; a second one stops; the same one again gives up recording.
void win_or_stop() {
  const auto me = static_cast<std::uint32_t>(hal::hart_id()) + 1;
  std::uint32_t expected = 0;
  if (std::atomic_ref(riscv_panic_winner).compare_exchange_strong(expected, me)) return;
  if (expected == me) hal::exit(EXIT_DOUBLE_PANIC);
  riscv_park();
}

PanicRecord staged_record;

}  // namespace

void leave_record(const char* reason) {
  staged_record.cause = PanicRecord::kNoCause;
  complete_and_store(staged_record, reason);
}

const PanicRecord* previous_panic() {
  const PanicRecord& record = persistent_memory().panic;
  const bool valid =
      record.magic == PanicRecord::kMagic && record.bytes == sizeof record && record.crc32c == record_crc(record);
  return valid ? &record : nullptr;
}

}  // namespace riscv

void riscv_firmware_trap(const riscv::TrapFrame* frame) {
  using riscv::Csr;
  riscv::PanicRecord& record = riscv::staged_record;
  record.cause = riscv::read_csr<Csr::kMcause>();
  record.pc = riscv::read_csr<Csr::kMepc>();
  record.value = riscv::read_csr<Csr::kMtval>();
  std::memcpy(record.x, frame->x, sizeof record.x);
  riscv::record_and_exit(record, "trap in firmware code");
}

void hal::panic(const char* reason) {
  riscv::win_or_stop();
  riscv::PanicRecord& record = riscv::staged_record;
  record.cause = riscv::PanicRecord::kNoCause;
  record.pc = reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
  riscv::record_and_exit(record, reason);
}

namespace hal {

std::span<const std::byte> previous_record() {
  const riscv::PanicRecord* record = riscv::previous_panic();
  return record == nullptr ? std::span<const std::byte>() : std::as_bytes(std::span(record, 1));
}

}  // namespace hal
