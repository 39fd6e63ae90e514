// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// libspyre-array.so: the compute array as a plugin of the stock emulator (-plugin FILE). It looks for hints in what
// the emulator translates and is called in front of each execution of them, on the hart's own thread.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "qemu/array/compute_array.hpp"
#include "qemu/array/plugin_interface.hpp"

namespace {

std::optional<std::uint64_t> mixed_seed() {
  const char* const text = std::getenv("SPYRE_ARRAY_MIXED");
  if (text == nullptr) return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

// One card to an emulator.
svp::array::ComputeArray& card_array() {
  static svp::array::ComputeArray array(mixed_seed());
  return array;
}

void on_work(unsigned hart, void* /*data*/) { card_array().work(hart); }

// Greetings and moves count in the firmware's own code only, which runs at physical addresses below those of any
// launch.
struct Greeting {
  std::uint64_t instruction;
  std::byte* code;
};
Greeting greeting;

void on_hello(unsigned hart, void* /*data*/) { card_array().greet(hart, greeting.instruction, greeting.code); }

void on_move(unsigned hart, void* /*data*/) { card_array().move(hart); }

void look_at(qemu_plugin_insn* instruction) {
  std::uint32_t word = 0;
  if (qemu_plugin_insn_data(instruction, &word, sizeof word) != sizeof word) return;
  if (word != wire::array::kHelloHint && word != wire::array::kWorkHint && word != wire::array::kMoveHint) return;
  const std::uint64_t address = qemu_plugin_insn_vaddr(instruction);
  const bool of_kernel = address >= wire::array::kLowestKernelAddress;
  if (word == wire::array::kWorkHint && of_kernel) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_work, 0, nullptr);
  } else if (word == wire::array::kMoveHint && !of_kernel) {
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_move, 0, nullptr);
  } else if (word == wire::array::kHelloHint && !of_kernel) {
    auto* const code = static_cast<std::byte*>(qemu_plugin_insn_haddr(instruction));
    if (code == nullptr) return;
    greeting = {address, code};
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_hello, 0, nullptr);
  }
}

void on_translate(qemu_plugin_id_t /*id*/, qemu_plugin_tb* block) {
  const std::size_t count = qemu_plugin_tb_n_insns(block);
  for (std::size_t i = 0; i < count; ++i) look_at(qemu_plugin_tb_get_insn(block, i));
}

}  // namespace

extern "C" {
// The version of the interface: QEMU 9.2 and 10.
[[gnu::visibility("default")]] extern const int qemu_plugin_version;
const int qemu_plugin_version = 4;

[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* /*info*/, int /*argc*/,
                                                       char** /*argv*/) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
  return 0;
}
}
