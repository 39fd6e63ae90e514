// SPDX-License-Identifier: Apache-2.0
#include "qemu/command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace qemu {

namespace {

constexpr unsigned kFunctionsPerDevice = 8;

/// Collects argv, one option and its value at a time.
class Arguments {
 public:
  void flag(std::string_view option) { all_.emplace_back(option); }
  void add(std::string_view option, std::string value) {
    all_.emplace_back(option);
    all_.push_back(std::move(value));
  }
  [[nodiscard]] std::vector<std::string> take() { return std::move(all_); }

 private:
  std::vector<std::string> all_;
};

/// The emulator counts instructions (-icount) only while the harts take turns in one thread, and refuses to start else.
std::string_view threads_for(const MachineOptions& options) {
  return std::ranges::find(options.extra_arguments, "-icount") == options.extra_arguments.end() ? "multi" : "single";
}

/// A comma ends a value of the emulator's options, two of them are one in it.
std::string with_commas_doubled(std::string_view text) {
  std::string doubled;
  for (const char c : text) doubled.append(c == ',' ? 2 : 1, c);
  return doubled;
}

void add_machine(Arguments& arguments, const MachineOptions& options) {
  // Private anonymous memory larger than the host's needs reserve=off; 98 GiB must never end up in a core file.
  arguments.add("-machine", "virt,aia=aplic-imsic,memory-backend=card-memory,dump-guest-core=off");
  arguments.add("-object", fmt::format("memory-backend-ram,id=card-memory,size={},reserve=off", options.memory_bytes));
  arguments.add("-m", fmt::format("{}M", options.memory_bytes / kMiB));
  arguments.add("-smp", fmt::format("{}", options.harts));
  arguments.add("-cpu", "rv64,v=true,vlen=1024,elen=64,vext_spec=v1.0");
  arguments.add("-accel",
                fmt::format("tcg,thread={},tb-size={}", threads_for(options), options.translation_buffer_mib));
  arguments.add("-bios", "none");
  arguments.add("-kernel", options.firmware.string());
  if (!options.boot_arguments.empty()) arguments.add("-append", options.boot_arguments);
}

void add_channels(Arguments& arguments, const InheritedDescriptors& descriptors) {
  arguments.add("-chardev", fmt::format("socket,id=qmp,fd={}", descriptors.qmp));
  arguments.add("-mon", "chardev=qmp,mode=control");
  // The console is a pipe, not a socket: a pipe merges the UART's single bytes, a socket pays ~800 bytes of buffer for
  // each and is full after a few lines. `append=on` because QEMU otherwise truncates what it opens.
  arguments.add("-add-fd", fmt::format("fd={},set=1", descriptors.console));
  arguments.add("-chardev", "file,id=console,path=/dev/fdset/1,append=on");
  arguments.add("-serial", "chardev:console");
}

void add_slots(Arguments& arguments, const InheritedDescriptors& descriptors, unsigned ports) {
  const auto slots = static_cast<unsigned>(descriptors.slots.size());
  const unsigned count = slots + ports;
  const std::string_view packing = count > kMaxSingleFunctionSlots ? ",multifunction=on" : "";
  for (unsigned slot = 0; slot < slots; ++slot) {
    arguments.add("-chardev", fmt::format("socket,id=slot{},fd={}", slot, descriptors.slots[slot]));
    arguments.add("-device", fmt::format("ivshmem-doorbell,chardev=slot{},vectors=1,addr={}{}", slot,
                                         slot_address(slot, count), packing));
  }
  for (unsigned port = 0; port < ports; ++port) {
    arguments.add("-device", fmt::format("pcie-root-port,id={},chassis={},slot={},addr={}{}", port_name(port), 1 + port,
                                         1 + port, slot_address(slots + port, count), packing));
  }
}

}  // namespace

std::string port_name(unsigned port) { return fmt::format("port{}", port); }

std::string slot_address(unsigned slot, unsigned slot_count) {
  if (slot_count <= kMaxSingleFunctionSlots) return fmt::format("{:02x}.0", 1 + slot);
  return fmt::format("{:02x}.{}", 1 + slot / kFunctionsPerDevice, slot % kFunctionsPerDevice);
}

std::vector<std::string> command_line(const MachineOptions& options, const InheritedDescriptors& descriptors) {
  Arguments arguments;
  arguments.add("-name", "spyre-card,debug-threads=on");
  arguments.flag("-no-user-config");
  arguments.flag("-nodefaults");
  arguments.add("-display", "none");
  arguments.flag("-S");  // the harts start only when all slots know their peers
  add_machine(arguments, options);
  add_channels(arguments, descriptors);
  add_slots(arguments, descriptors, options.ports);
  if (!options.array.empty()) arguments.add("-plugin", "file=" + with_commas_doubled(options.array.string()));
  if (!options.gdb_endpoint.empty()) arguments.add("-gdb", options.gdb_endpoint);
  for (const std::string& extra : options.extra_arguments) arguments.flag(extra);
  return arguments.take();
}

}  // namespace qemu
