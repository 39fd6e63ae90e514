// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/refusals.hpp"

#include <algorithm>

namespace svp::campaign {

using wire::ControlBlock;
using wire::Outcome;

namespace {

constexpr std::uint64_t kRefusedBytes = 64 * wire::kKiB;
constexpr std::uint64_t kPattern = 0x0C0F'FEE0'DDBA'11AD;
constexpr std::uint64_t kReadBack = 8 * wire::kMiB;

}  // namespace

Refusals::Refusals(ScenarioContext& context) : context_(context) {
  context_.bystander();
  BlockBuilder& builder = context_.builder();
  const auto filled = context_.stream().run(BlockBuilder::fill(builder.tensor(0), BlockBuilder::kRegionBytes, kPattern),
                                            context_.timeout());
  if (!filled || filled->outcome != Outcome::Ok)
    context_.contained("prepared", false, "the memory could not be prepared");
  (void)context_.stream().reset();
  first_incarnation_ = context_.faulting().stream_incarnation(context_.stream().stream());
}

ControlBlock Refusals::addressed(ControlBlock block) {
  auto& header = block.header;
  header.magic = wire::kControlBlockMagic;
  header.sticks = static_cast<std::uint8_t>(std::max(1u, wire::required_sticks(block)));
  header.stream = context_.stream().stream();
  header.incarnation = context_.faulting().stream_incarnation(header.stream);
  header.generation = context_.faulting().config().generation;
  header.sequence = 1;
  return block;
}

ControlBlock Refusals::good_dma() {
  BlockBuilder& builder = context_.builder();
  return addressed(BlockBuilder::dma(builder.host(0), builder.tensor(0), kRefusedBytes));
}

ControlBlock Refusals::good_strided() {
  BlockBuilder& builder = context_.builder();
  const wire::StridedLevel levels[] = {{16, 4, 1}, {4, 1, 16}};
  return addressed(BlockBuilder::strided(builder.host(0), builder.tensor(0), 4, levels));
}

ControlBlock Refusals::good_fill() {
  BlockBuilder& builder = context_.builder();
  return addressed(BlockBuilder::fill(builder.tensor(0), kRefusedBytes, 0x55));
}

void Refusals::run() {
  context_.trigger();
  send_all();
  finish();
}

void Refusals::send_all() {
  for (const BadBlock& bad : cases_) {
    const std::string wrong = send(context_.stream(), bad);
    context_.claim(Proof::Detected, bad.name, wrong.empty(), wrong);
  }
  context_.fired(sent_ == cases_.size(), std::to_string(sent_) + " of " + std::to_string(cases_.size()) + " sent");
}

void Refusals::finish() {
  context_.contained("own memory", memory_unchanged(), "the faulting function's own memory");
  context_.contained();
  context_.recover_stream();
}

std::string Refusals::send(TestStream& stream, const BadBlock& bad) {
  ControlBlock block = bad.block;
  // The stream was reset since the case was made, unless the case is about just that.
  if (block.header.incarnation == first_incarnation_) {
    block.header.incarnation = context_.faulting().stream_incarnation(stream.stream());
  }
  if (!stream.submit({&block, 1}, true)) return "not taken";
  ++sent_;
  if (!stream.wait_all(context_.timeout())) return "never ended";
  const auto end = stream.endings().back();
  if (auto reset = stream.reset(); !reset) return reset.error().message;
  if (end.outcome == Outcome::Rejected && end.status == bad.status && end.bytes == 0) return {};
  return std::string(wire::name(end.outcome)) + ", " + std::string(wire::name(end.status)) + " instead of " +
         std::string(wire::name(bad.status));
}

bool Refusals::memory_unchanged() {
  BlockBuilder& builder = context_.builder();
  const auto read = context_.stream().run(
      BlockBuilder::dma(builder.tensor(0), builder.host(kReadBack), BlockBuilder::kRegionBytes), context_.timeout());
  if (!read || read->outcome != Outcome::Ok) return false;
  return std::ranges::all_of(builder.host_words(kReadBack, BlockBuilder::kRegionBytes),
                             [](std::uint64_t word) { return word == kPattern; });
}

}  // namespace svp::campaign
