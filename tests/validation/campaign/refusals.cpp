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

Refusals::Refusals(Trial& trial) : trial_(trial) {
  trial_.innocent();
  Desk& desk = trial_.desk();
  const auto filled =
      trial_.lane().run(Desk::fill(Desk::in(desk.tensor(), 0), Desk::kRegionBytes, kPattern), trial_.patience());
  if (!filled || filled->outcome != Outcome::Ok)
    trial_.contained("prepared", false, "the memory could not be prepared");
  (void)trial_.lane().reset();
  first_incarnation_ = trial_.guilty().stream_incarnation(trial_.lane().stream());
}

ControlBlock Refusals::addressed(ControlBlock block) {
  auto& header = block.header;
  header.magic = wire::kControlBlockMagic;
  header.sticks = static_cast<std::uint8_t>(std::max(1u, wire::required_sticks(header.opcode)));
  header.stream = trial_.lane().stream();
  header.incarnation = trial_.guilty().stream_incarnation(header.stream);
  header.generation = trial_.guilty().config().generation;
  header.sequence = 1;
  return block;
}

ControlBlock Refusals::good_dma() {
  Desk& desk = trial_.desk();
  return addressed(Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), kRefusedBytes));
}

ControlBlock Refusals::good_fill() {
  Desk& desk = trial_.desk();
  return addressed(Desk::fill(Desk::in(desk.tensor(), 0), kRefusedBytes, 0x55));
}

void Refusals::run() {
  trial_.let_loose();
  send_all();
  finish();
}

void Refusals::send_all() {
  for (const BadBlock& bad : cases_) {
    const std::string wrong = send(trial_.lane(), bad);
    trial_.claim(Proof::Detected, bad.name, wrong.empty(), wrong);
  }
  trial_.fired(sent_ == cases_.size(), std::to_string(sent_) + " of " + std::to_string(cases_.size()) + " sent");
}

void Refusals::finish() {
  trial_.contained("own memory", memory_unchanged(), "the guilty function's own memory");
  trial_.contained();
  trial_.recover_stream();
}

std::string Refusals::send(Lane& lane, const BadBlock& bad) {
  ControlBlock block = bad.block;
  // The stream was reset since the case was made, unless the case is about just that.
  if (block.header.incarnation == first_incarnation_) {
    block.header.incarnation = trial_.guilty().stream_incarnation(lane.stream());
  }
  if (!lane.submit({&block, 1}, true)) return "not taken";
  ++sent_;
  if (!lane.wait_all(trial_.patience())) return "never ended";
  const auto end = lane.endings().back();
  if (auto reset = lane.reset(); !reset) return reset.error().message;
  if (end.outcome == Outcome::Rejected && end.status == bad.status && end.bytes == 0) return {};
  return std::string(wire::name(end.outcome)) + ", " + std::string(wire::name(end.status)) + " instead of " +
         std::string(wire::name(bad.status));
}

bool Refusals::memory_unchanged() {
  Desk& desk = trial_.desk();
  const auto read = trial_.lane().run(Desk::dma(Desk::in(desk.tensor(), 0), desk.host(kReadBack), Desk::kRegionBytes),
                                      trial_.patience());
  if (!read || read->outcome != Outcome::Ok) return false;
  return std::ranges::all_of(desk.host_words(kReadBack, Desk::kRegionBytes),
                             [](std::uint64_t word) { return word == kPattern; });
}

}  // namespace svp::campaign
