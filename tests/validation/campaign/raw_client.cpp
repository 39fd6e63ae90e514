// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/raw_client.hpp"

#include <algorithm>

#include "shared/units.hpp"

namespace svp::campaign {

using raw::RawDriver;
using wire::Outcome;

namespace {

constexpr unsigned kFirstFunctionSlot = 1;  // of the PF; the card has just been booted, or slots were never retired

}  // namespace

RawClient::RawClient(ScenarioContext& context)
    : context_(context),
      slot_(value_or_throw(context.card().slot(kFirstFunctionSlot + kThird))),
      driver_(slot_.window(), [this] { slot_.pump(); }) {}

RawClient::~RawClient() {
  try {
    (void)driver_.set_status(0);
  } catch (const std::exception&) {
    // The card is gone, or was made not to answer: the campaign counts what is left.
  }
}

std::string RawClient::works() {
  if (!driver_.bring_up()) return "the function does not come up any more";
  const auto region = driver_.acquire(wire::kGranuleBytes);
  if (!region) return "no region";
  raw::StreamHandle stream;
  const auto fill = driver_.run(driver_.fill(stream, *region, 0, 4096, context_.seed()));
  if (fill.outcome != Outcome::Ok) return "a good job ended " + std::string(wire::name(fill.outcome));
  const std::uint64_t at = wire::kHostMemoryOffset;
  const auto copy = driver_.run(driver_.dma(stream, RawDriver::device(*region, 0), RawDriver::host(at), 4096));
  const auto* words = driver_.at<std::uint64_t>(at);
  const bool right = copy.outcome == Outcome::Ok &&
                     std::all_of(words, words + 512, [&](std::uint64_t word) { return word == context_.seed(); });
  return right ? std::string() : "a good job's data came back wrong";
}

}  // namespace svp::campaign
