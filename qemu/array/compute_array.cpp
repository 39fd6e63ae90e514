// SPDX-License-Identifier: Apache-2.0
#include "qemu/array/compute_array.hpp"

#include <atomic>
#include <cstring>
#include <optional>

#include "qemu/array/blocks.hpp"
#include "qemu/array/chunk.hpp"
#include "qemu/array/convert.hpp"
#include "qemu/array/copies.hpp"
#include "qemu/array/lines.hpp"
#include "qemu/array/rows.hpp"

namespace svp::array {
namespace {

using wire::array::Hello;
using wire::array::Kind;
using wire::array::Outcome;
using wire::array::Request;

constexpr unsigned kMaxHarts = 512;

// Of the kinds that compute whatever they have found.
template <typename Plan>
Answer computed(const CardMemory& memory, std::uint64_t root, const Request& request) {
  static thread_local Plan plan;
  std::memcpy(&plan.request, &request, sizeof request);
  const Answer answer = prepare(memory, root, plan);
  if (answer.outcome == Outcome::Done) execute(plan);
  return answer;
}

Answer chunk(const CardMemory& memory, std::uint64_t root, const Request& request) {
  static thread_local ChunkPlan plan;
  std::memcpy(&plan.request, &request, sizeof request);
  const Answer answer = prepare(memory, root, plan);
  if (answer.outcome == Outcome::Done && !execute(plan)) return refused();
  return answer;
}

Answer answer_of(const CardMemory& memory, std::uint64_t root, const Request& request) {
  Kind kind{};
  std::memcpy(&kind, &request.kind, sizeof kind);
  switch (kind) {
    case Kind::Rows: return computed<RowsPlan>(memory, root, request);
    case Kind::Chunk: return chunk(memory, root, request);
    case Kind::Lines: return computed<LinesPlan>(memory, root, request);
    case Kind::Convert: return computed<ConvertPlan>(memory, root, request);
    case Kind::Blocks: return computed<BlocksPlan>(memory, root, request);
    case Kind::Copies: return computed<CopiesPlan>(memory, root, request);
  }
  return refused();
}

// Of the hart whose thread this is; the same in each run.
bool coin() {
  static thread_local std::uint64_t state = 1;
  state = state * 6364136223846793005 + 1442695040888963407;
  return state >> 63 != 0;
}

// What the kernel reads when the hint has been executed; the outcome last.
void answer(Request& request, const Answer& answer) {
  request.operand = answer.operand;
  request.done = answer.done;
  request.address = answer.address;
  std::atomic_ref(request.outcome).store(answer.outcome, std::memory_order_release);
}

}  // namespace

void ComputeArray::greet(std::uint64_t instruction, std::byte* code) {
  std::uint64_t block = 0;
  std::memcpy(&block, code + wire::array::kHelloAddressAt, sizeof block);
  Hello* const there = reinterpret_cast<Hello*>(code + static_cast<std::int64_t>(block - instruction));
  Hello hello;
  std::memcpy(&hello, there, sizeof hello);
  harts_ = 0;
  if (hello.magic != wire::array::kHelloMagic || hello.version != wire::array::kVersion) return;
  if (hello.harts == 0 || hello.harts > kMaxHarts || instruction < hello.ram_base) return;
  memory_ = CardMemory(code - (instruction - hello.ram_base), hello.ram_base, hello.ram_bytes);
  hello_ = hello;
  harts_ = hello.harts;
  there->answer = wire::array::kVersion;
}

void ComputeArray::work(unsigned hart) const {
  if (hart >= harts_) return;
  const std::uint64_t local = hello_.hart_local + hart * hello_.hart_stride;
  const auto root = memory_.word(local + hello_.root_at);
  const auto context = memory_.word(local + hello_.context_at);
  const auto arguments = context ? memory_.word(*context + hello_.arguments_at) : std::nullopt;
  if (!root || !arguments) return;
  const std::uint64_t address = wire::array::request_address(*arguments);
  const auto page = find_page(memory_, *root, address);
  if (!page || !page->writable || page->end - address < sizeof(Request)) return;
  auto& request = *reinterpret_cast<Request*>(page->at(address));
  answer(request, mixed_ && coin() ? refused() : answer_of(memory_, *root, request));
}

}  // namespace svp::array
