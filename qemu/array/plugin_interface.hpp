// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// What the emulator offers to a plugin of its translator, as far as the array uses it: the interface of QEMU 9.2 and
// 10, written down from its documentation, because Debian installs no header of it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
using qemu_plugin_id_t = std::uint64_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;

// A block of instructions that has been translated, and its instructions.
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*visit)(qemu_plugin_id_t, qemu_plugin_tb*));
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, std::size_t index);
std::size_t qemu_plugin_insn_data(const qemu_plugin_insn* instruction, void* to, std::size_t bytes);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn* instruction);
// Where the instruction lies in the emulator's own memory.
void* qemu_plugin_insn_haddr(const qemu_plugin_insn* instruction);

// `call(hart, data)` in front of each execution of the instruction, on the hart's thread. `registers`: 0, none are
// read.
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn* instruction, void (*call)(unsigned hart, void* data),
                                            int registers, void* data);
}
