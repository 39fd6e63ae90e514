// SPDX-License-Identifier: Apache-2.0
// A plugin for QEMU that counts what hart 0's emulation does (counters.hpp). Loaded with
// -plugin FILE.so,table=FILE; the table file exists and has the size of counts::Table.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <mutex>
#include <string_view>

#include "tests/bench/counts/counters.hpp"
#include "tests/bench/counts/plugin_interface.hpp"

namespace {

// What is known of a block beside its row. Blocks are never freed: the emulator may still execute one that it has
// translated anew.
struct Block {
  counts::Row* row;
  std::uint64_t address;
  std::uint64_t instructions;
  bool ends_indirectly;
};

counts::Table* table;
std::array<Block, counts::kMaxRows> blocks;
std::mutex translation;  // harts translate at the same time

// ---- the emulator's cache of jump targets, as QEMU 9 and 10 index it

constexpr unsigned kTargets = 4096;
std::array<std::uint64_t, kTargets> targets;
const Block* last = nullptr;

unsigned place_of(std::uint64_t address) {
  const std::uint64_t mixed = address ^ address >> 6;
  return static_cast<unsigned>((mixed >> 6 & 0xfc0) | (mixed & 0x3f));
}

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

constexpr std::uint64_t page_of(std::uint64_t address) { return address >> 12; }

// Of the present iteration of hart 0's loop; none has begun since the reader asked.
std::uint64_t in_iteration = 0;
bool iteration_began = false;

void count_iteration(const Block& block) {
  const std::uint64_t begin = table->iteration.load(std::memory_order_relaxed);
  if (begin == 0) {
    iteration_began = false;
    return;
  }
  if (block.address == begin) {
    if (iteration_began && in_iteration > table->longest.load(std::memory_order_relaxed)) {
      table->longest.store(in_iteration, std::memory_order_relaxed);
    }
    iteration_began = true;
    in_iteration = 0;
  }
  in_iteration += block.instructions;
}

void executed(unsigned hart, void* data) {
  if (hart != 0) return;
  const auto& block = *static_cast<const Block*>(data);
  count_iteration(block);
  add(block.row->executed, 1);
  if (last != nullptr && (last->ends_indirectly || page_of(last->address) != page_of(block.address))) {
    add(block.row->lookups, 1);
    std::uint64_t& target = targets[place_of(block.address)];
    if (target != block.address) add(block.row->misses, 1);
    target = block.address;
  }
  last = &block;
}

// jalr, ecall, mret, wfi and their like; c.jr and c.jalr; vsetvli, behind which the emulator looks up, too.
bool jumps_indirectly(const qemu_plugin_insn* instruction) {
  std::uint32_t bits = 0;
  const std::size_t bytes = qemu_plugin_insn_size(instruction);
  qemu_plugin_insn_data(instruction, &bits, bytes < sizeof bits ? bytes : sizeof bits);
  if (bytes == 2) return (bits & 0xe07f) == 0x8002;
  const std::uint32_t opcode = bits & 0x7f;
  constexpr std::uint32_t kVectorConfiguration = 0x7057;  // vsetvli and its like: OP-V with funct3 7
  return opcode == 0x67 || opcode == 0x73 || (bits & 0x707f) == kVectorConfiguration;
}

void translated(qemu_plugin_id_t, qemu_plugin_tb* tb) {
  const std::lock_guard guard(translation);
  const std::uint64_t at = table->rows.load(std::memory_order_relaxed);
  if (at == counts::kMaxRows) return add(table->overflow, 1);
  const std::size_t instructions = qemu_plugin_tb_n_insns(tb);
  counts::Row& row = table->row[at];
  row.address.store(qemu_plugin_tb_vaddr(tb), std::memory_order_relaxed);
  row.instructions.store(instructions, std::memory_order_relaxed);
  blocks[at] = {&row, qemu_plugin_tb_vaddr(tb), instructions,
                jumps_indirectly(qemu_plugin_tb_get_insn(tb, instructions - 1))};
  table->rows.store(at + 1, std::memory_order_release);
  qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, &blocks[at]);
}

counts::Table* map_table(const char* path) {
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = ::mmap(nullptr, sizeof(counts::Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return at == MAP_FAILED ? nullptr : static_cast<counts::Table*>(at);
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] extern const int qemu_plugin_version;
const int qemu_plugin_version = 3;

// Called by the emulator. Not 0: it refuses to start, and says so.
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const void*, int count, char** arguments) {
  constexpr std::string_view kOption = "table=";
  for (int i = 0; i < count; ++i) {
    if (std::string_view(arguments[i]).starts_with(kOption)) table = map_table(arguments[i] + kOption.size());
  }
  if (table == nullptr) return 1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  return 0;
}

}  // extern "C"
