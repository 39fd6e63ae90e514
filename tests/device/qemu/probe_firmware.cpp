// SPDX-License-Identifier: Apache-2.0
//
// The smallest firmware that can tell whether a Machine wires its slots right: it finds every ivshmem device in devfn
// order, marks its window, rings the host once, and from then on answers each interrupt of a slot with a ring of the
// same slot. Independent of the real firmware, so that a fault of one is not blamed on the other.
#include "tests/device/qemu/probe_firmware.hpp"

namespace {

using namespace qemu::probe;

constexpr uint64_t kUart = 0x1000'0000;
constexpr uint64_t kFinisher = 0x10'0000;
constexpr uint64_t kConfigSpace = 0x3000'0000;
constexpr uint64_t kLowPci = 0x4000'0000;
constexpr uint64_t kImsic = 0x2400'0000;
constexpr uint64_t kDram = 0x8000'0000;
constexpr uint64_t kHighPciAlignment = uint64_t{16} << 30;
constexpr uint64_t kHighPci = (kDram + kMemoryBytes + kHighPciAlignment - 1) / kHighPciAlignment * kHighPciAlignment;

constexpr uint32_t kIvshmem = 0x1110'1af4;
constexpr uint64_t kRegisterBytes = 0x1'0000;  // distance of two slots' BAR0
constexpr uint64_t kTableOffset = 0x8000;      // BAR1 behind BAR0
constexpr unsigned kMaximumSlots = 64;         // the 16 GiB window holds no more at 256 MiB each

volatile uint32_t& word32(uint64_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }
volatile uint64_t& word64(uint64_t address) { return *reinterpret_cast<volatile uint64_t*>(address); }
volatile uint64_t& window(unsigned slot, Word word) {
  return word64(kHighPci + slot * kWindowBytes + word * sizeof(uint64_t));
}

void put(char c) { *reinterpret_cast<volatile char*>(kUart) = c; }
void put(const char* text) {
  for (; *text != '\0'; ++text) put(*text);
}
void put(uint64_t value) {
  if (value >= 10) put(value / 10);
  put(static_cast<char>('0' + value % 10));
}

void ring(unsigned slot) {
  asm volatile("fence w, o" ::: "memory");
  word32(kLowPci + slot * kRegisterBytes + 12) = 0;  // peer 0, vector 0
}

void enable_messages(uint64_t config) {
  for (unsigned at = word32(config + 0x34) & 0xff; at != 0;) {
    const uint32_t header = word32(config + at);
    if ((header & 0xff) == 0x11) word32(config + at) = header | 0x8000'0000;
    at = header >> 8 & 0xff;
  }
}

void bring_up(uint64_t config, unsigned slot, unsigned devfn) {
  const uint64_t registers = kLowPci + slot * kRegisterBytes;
  const uint64_t shared = kHighPci + slot * kWindowBytes;
  word32(config + 0x10) = static_cast<uint32_t>(registers);
  word32(config + 0x14) = static_cast<uint32_t>(registers + kTableOffset);
  word32(config + 0x18) = static_cast<uint32_t>(shared);
  word32(config + 0x1c) = static_cast<uint32_t>(shared >> 32);
  word32(config + 0x04) = 6;  // memory space, bus master
  enable_messages(config);
  word32(registers + kTableOffset + 0) = kImsic;
  word32(registers + kTableOffset + 4) = 0;
  word32(registers + kTableOffset + 8) = slot + 1;
  word32(registers + kTableOffset + 12) = 0;
  window(slot, kDevfn) = devfn;
  window(slot, kEchoes) = 0;
  window(slot, kBoots) = window(slot, kBoots) + 1;
  window(slot, kMagic) = kReady + slot;
  ring(slot);
}

unsigned scan() {
  unsigned slots = 0;
  for (unsigned devfn = 8; devfn < 256 && slots < kMaximumSlots; ++devfn) {
    const uint64_t first = kConfigSpace + (static_cast<uint64_t>(devfn & ~7U) << 12);
    const bool multifunction = (word32(first + 0x0c) >> 23 & 1) != 0;
    if ((devfn & 7) != 0 && !multifunction) continue;
    const uint64_t config = kConfigSpace + (static_cast<uint64_t>(devfn) << 12);
    if (word32(config) == kIvshmem) bring_up(config, slots++, devfn);
  }
  return slots;
}

void write_imsic(uint64_t index, uint64_t value) {
  asm volatile("csrw 0x350, %0\n csrw 0x351, %1" ::"r"(index), "r"(value));
}

uint64_t claim() {
  uint64_t top;
  asm volatile("csrrw %0, 0x35c, x0" : "=r"(top));
  return top >> 16;
}

/// The IMSIC keeps its state over a reset of the machine: start from nothing.
void prepare_imsic() {
  write_imsic(0x70, 0);
  for (unsigned i = 0; i < 8; i += 2) write_imsic(0x80 + i, 0);  // pending
  for (unsigned i = 0; i < 8; i += 2) write_imsic(0xc0 + i, ~uint64_t{0});
  write_imsic(0x72, 0);
  write_imsic(0x70, 1);
  asm volatile("csrs mie, %0" ::"r"(1 << 11));
}

void handle_request() {
  const uint64_t command = window(0, kCommand);
  const uint64_t argument = window(0, kArgument);
  window(0, kCommand) = kNone;
  if (command == kExit) word32(kFinisher) = argument == 0 ? 0x5555 : static_cast<uint32_t>(argument << 16 | 0x3333);
  for (uint64_t i = 0; command == kPrint && i < argument; ++i) {
    // bounded: the emulated UART takes every byte at once
    while ((*reinterpret_cast<volatile unsigned char*>(kUart + 5) & 0x20) == 0) {
    }
    put("line ");
    put(i);
    put("\n");
  }
}

}  // namespace

extern "C" [[noreturn]] void probe_main() {
  prepare_imsic();
  const unsigned slots = scan();
  put("probe: ");
  put(static_cast<uint64_t>(slots));
  put(" slots\n");
  for (;;) {              // bounded: the lifetime of the probe; its test ends the emulator
    asm volatile("wfi");  // bounded: the lifetime of the probe; its test ends the emulator
    for (uint64_t id; (id = claim()) != 0;) {
      const auto slot = static_cast<unsigned>(id - 1);
      if (slot == 0) handle_request();
      window(slot, kEchoes) = window(slot, kEchoes) + 1;
      ring(slot);
    }
  }
}

asm(".section .text.start, \"ax\"\n"
    ".globl _start\n"
    "_start:\n"
    "  csrr t0, mhartid\n"
    "  bnez t0, 1f\n"
    "  la sp, probe_stack_top\n"
    "  call probe_main\n"
    "1: wfi\n"
    "  j 1b\n"
    ".section .bss.stack, \"aw\", @nobits\n"
    ".balign 16\n"
    ".space 16384\n"
    "probe_stack_top:\n");
