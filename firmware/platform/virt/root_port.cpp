// SPDX-License-Identifier: Apache-2.0
#include "firmware/platform/virt/root_port.hpp"

namespace virt {

namespace {

constexpr std::uint64_t kBusNumbers = 0x18;
constexpr std::uint64_t kInputOutputWindow = 0x1c;
constexpr std::uint64_t kMemoryWindow = 0x20;
constexpr std::uint64_t kPrefetchableWindow = 0x24;
constexpr std::uint64_t kPrefetchableBaseHigh = 0x28;
constexpr std::uint64_t kPrefetchableLimitHigh = 0x2c;
// Base above limit: nothing is forwarded.
constexpr std::uint32_t kNoMemory = 0x0000'fff0;
constexpr std::uint32_t kNoInputOutput = 0x0000'00f0;

constexpr std::uint8_t kExpressCapability = 0x10;
constexpr std::uint64_t kSlotControl = 0x18;
constexpr std::uint16_t kPowerIndicatorMask = 3 << 8;
constexpr std::uint16_t kPowerIndicatorOn = 1 << 8;
constexpr std::uint16_t kPowerIndicatorOff = 3 << 8;
constexpr std::uint16_t kPowerOff = 1 << 10;

constexpr unsigned kBusShift = 20;
constexpr std::uint64_t kBusBytes = std::uint64_t{1} << kBusShift;

}  // namespace

RootPort::RootPort(const PciFunction& function, unsigned bus)
    : PciFunction(function), bus_(bus), capability_(find_capability(kExpressCapability)) {}

std::uint64_t RootPort::below() const { return (config() & ~(kBusBytes * 256 - 1)) + bus_ * kBusBytes; }

void RootPort::initialize() {
  disable();
  write(kBusNumbers, bus_ << 16 | bus_ << 8);
  write(kInputOutputWindow, kNoInputOutput);
  write(kMemoryWindow, kNoMemory);
  forward_nothing();
  enable();
}

void RootPort::forward(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t last = address + bytes - 1;
  // Opened by the base's upper half, which comes last: the window is never larger than it is to be.
  write(kPrefetchableWindow, static_cast<std::uint32_t>((last >> 16 & 0xfff0) << 16 | (address >> 16 & 0xfff0)));
  write(kPrefetchableLimitHigh, static_cast<std::uint32_t>(last >> 32));
  write(kPrefetchableBaseHigh, static_cast<std::uint32_t>(address >> 32));
}

void RootPort::forward_nothing() {
  write(kPrefetchableBaseHigh, ~0u);
  write(kPrefetchableWindow, kNoMemory);
  write(kPrefetchableLimitHigh, 0);
}

void RootPort::set_power(std::uint16_t bits) {
  const std::uint16_t others = read16(capability_ + kSlotControl) & ~(kPowerIndicatorMask | kPowerOff);
  write16(capability_ + kSlotControl, others | bits);
}

void RootPort::power_on() { set_power(kPowerIndicatorOn); }

// The emulator unplugs when both go off together, and not when they were off before.
void RootPort::power_off() {
  power_on();
  set_power(kPowerIndicatorOff | kPowerOff);
}

}  // namespace virt
