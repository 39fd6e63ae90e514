// SPDX-License-Identifier: Apache-2.0
#include "qemu/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace qemu {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

InheritedDescriptors descriptors(unsigned slots) {
  InheritedDescriptors result{.qmp = 6, .console = 7, .slots = std::vector<int>(slots)};
  std::iota(result.slots.begin(), result.slots.end(), 8);
  return result;
}

std::string value_after(const std::vector<std::string>& arguments, const std::string& option) {
  const auto at = std::ranges::find(arguments, option);
  return at == arguments.end() || at + 1 == arguments.end() ? std::string{} : *(at + 1);
}

/// "DD.F" as the PCI devfn number.
int devfn(const std::string& address) {
  return static_cast<int>(std::strtol(address.c_str(), nullptr, 16)) * 8 + std::atoi(address.substr(3).c_str());
}

TEST(CommandLine, SlotAddressesAscendInEveryLayout) {
  for (const unsigned count : {1U, 3U, 26U, 31U, 32U, 64U, 248U}) {
    int previous = 7;  // device 0 is the host bridge
    for (unsigned slot = 0; slot < count; ++slot) {
      const int address = devfn(slot_address(slot, count));
      EXPECT_GT(address, previous) << "slot " << slot << " of " << count;
      previous = address;
    }
    EXPECT_LT(previous, 256) << count;
  }
}

TEST(CommandLine, FunctionZeroOfEveryPackedDeviceExists) {
  for (unsigned slot = 0; slot < 64; slot += 8) EXPECT_EQ(devfn(slot_address(slot, 64)) % 8, 0);
}

TEST(CommandLine, ThirtyOneSlotsAreSingleFunctionDevices) {
  const auto arguments = command_line({}, descriptors(31));
  EXPECT_THAT(arguments, Contains("ivshmem-doorbell,chardev=slot30,vectors=1,addr=1f.0"));
}

TEST(CommandLine, ThirtyTwoSlotsArePackedAndAnnounced) {
  const auto arguments = command_line({}, descriptors(32));
  EXPECT_THAT(arguments, Contains("ivshmem-doorbell,chardev=slot31,vectors=1,addr=04.7,multifunction=on"));
}

TEST(CommandLine, ThePluginOfTheArrayIsNamedWhateverItsPathHolds) {
  EXPECT_THAT(command_line({}, descriptors(1)), Not(Contains("-plugin")));
  EXPECT_EQ(value_after(command_line({.array = "/a,b/array.so"}, descriptors(1)), "-plugin"), "file=/a,,b/array.so");
}

TEST(CommandLine, PortsStandBehindTheSlots) {
  const auto arguments = command_line({.ports = 2}, descriptors(3));
  EXPECT_THAT(arguments, Contains("ivshmem-doorbell,chardev=slot2,vectors=1,addr=03.0"));
  EXPECT_THAT(arguments, Contains("pcie-root-port,id=port0,chassis=1,slot=1,addr=04.0"));
  EXPECT_THAT(arguments, Contains("pcie-root-port,id=port1,chassis=2,slot=2,addr=05.0"));
}

TEST(CommandLine, PortsArePackedWithTheSlots) {
  const auto arguments = command_line({.ports = 29}, descriptors(3));
  EXPECT_THAT(arguments, Contains("ivshmem-doorbell,chardev=slot2,vectors=1,addr=01.2,multifunction=on"));
  EXPECT_THAT(arguments, Contains("pcie-root-port,id=port28,chassis=29,slot=29,addr=04.7,multifunction=on"));
}

TEST(CommandLine, MemoryIsNeitherReservedNorDumped) {
  const auto arguments = command_line({}, descriptors(3));
  EXPECT_THAT(value_after(arguments, "-machine"), HasSubstr("dump-guest-core=off"));
  EXPECT_EQ(value_after(arguments, "-object"), "memory-backend-ram,id=card-memory,size=105226698752,reserve=off");
  EXPECT_EQ(value_after(arguments, "-m"), "100352M");
}

TEST(CommandLine, HartsAlwaysStartStopped) {
  EXPECT_THAT(command_line({.start_paused = false}, descriptors(1)), Contains("-S"));
  EXPECT_THAT(command_line({.start_paused = true}, descriptors(1)), Contains("-S"));
}

TEST(CommandLine, OptionsReachTheirArguments) {
  MachineOptions options;
  options.firmware = "a folder/with,comma.elf";
  options.harts = 33;
  options.boot_arguments = "slots=m,pf,vf x=1";
  options.translation_buffer_mib = 17;
  options.gdb_endpoint = "tcp:127.0.0.1:1234";
  options.extra_arguments = {"-d", "guest_errors"};
  const auto arguments = command_line(options, descriptors(2));
  EXPECT_EQ(value_after(arguments, "-kernel"), "a folder/with,comma.elf");
  EXPECT_EQ(value_after(arguments, "-smp"), "33");
  EXPECT_EQ(value_after(arguments, "-append"), "slots=m,pf,vf x=1");
  EXPECT_EQ(value_after(arguments, "-accel"), "tcg,thread=multi,tb-size=17");
  EXPECT_EQ(value_after(arguments, "-gdb"), "tcp:127.0.0.1:1234");
  EXPECT_EQ(arguments.back(), "guest_errors");
}

TEST(CommandLine, HartsAlternateWhenInstructionsAreCounted) {
  MachineOptions options;
  options.extra_arguments = {"-icount", "shift=2"};
  EXPECT_THAT(value_after(command_line(options, descriptors(2)), "-accel"), HasSubstr("thread=single"));
}

TEST(CommandLine, NothingHasAFileSystemName) {
  for (const std::string& argument : command_line({}, descriptors(64))) {
    EXPECT_THAT(argument, Not(HasSubstr("unix:")));
    if (argument.contains("path=")) EXPECT_THAT(argument, HasSubstr("path=/dev/fdset/"));
  }
}

TEST(MachineOptions, DefaultsAreValid) { EXPECT_TRUE(validate({}).has_value()); }

TEST(MachineOptions, EveryRangeIsChecked) {
  const auto kind_of = [](const MachineOptions& options) {
    const auto result = validate(options);
    return result ? std::string{"valid"} : std::string{to_string(result.error().kind)};
  };
  EXPECT_EQ(kind_of({.harts = 0}), "invalid-option");
  EXPECT_EQ(kind_of({.harts = 513}), "invalid-option");
  EXPECT_EQ(kind_of({.memory_bytes = 0}), "invalid-option");
  EXPECT_EQ(kind_of({.memory_bytes = kGiB + 1}), "invalid-option");
  EXPECT_EQ(kind_of({.slots = std::vector<SlotOptions>(248)}), "valid");
  EXPECT_EQ(kind_of({.slots = std::vector<SlotOptions>(249)}), "invalid-option");
  EXPECT_EQ(kind_of({.slots = {{.window_bytes = 3 * kMiB}}}), "invalid-option");
  EXPECT_EQ(kind_of({.slots = {{.window_bytes = 2048}}}), "invalid-option");
  EXPECT_EQ(kind_of({.slots = {{.window_bytes = 4096}}}), "valid");
  EXPECT_EQ(kind_of({.translation_buffer_mib = 0}), "invalid-option");
}

}  // namespace
}  // namespace qemu
