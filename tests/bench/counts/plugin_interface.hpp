// SPDX-License-Identifier: Apache-2.0
// The part of QEMU's plugin interface (version 3 and later) that the counting plugin calls. Declared here because
// Debian packages no header for it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct qemu_plugin_tb;    // a block while it is translated
struct qemu_plugin_insn;  // an instruction of it

using qemu_plugin_id_t = std::uint64_t;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*translated)(qemu_plugin_id_t, qemu_plugin_tb*));
// `flags` 0: the callback reads no register.
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb* block, void (*executed)(unsigned hart, void* data), int flags,
                                          void* data);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
std::uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, std::size_t index);
std::size_t qemu_plugin_insn_data(const qemu_plugin_insn* instruction, void* to, std::size_t bytes);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn* instruction);

}  // extern "C"
