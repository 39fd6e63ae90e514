// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/scenario_context.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qemu/machine.hpp"
#include "shared/crc32c.hpp"
#include "shared/version.hpp"
#include "shared/window.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"

namespace svp::campaign {

namespace {

using wire::Outcome;

constexpr auto kTimeout = campaign_bounds::kTimeout;
constexpr auto kShortTimeout = campaign_bounds::kShortTimeout;
constexpr std::uint64_t kImageStride = 64 * wire::kKiB;  // of images in the Program region

}  // namespace

ScenarioContext::ScenarioContext(const Scenario& scenario, CardFixture* fixture, std::uint64_t seed,
                                 const Conditions& conditions)
    : scenario_(scenario), fixture_(fixture), seed_(seed), conditions_(conditions), random_(seed) {
  result_.id = scenario.id;
  result_.seed = seed;
  origin_ = Clock::now();
}

ScenarioContext::~ScenarioContext() { close(); }

CardFixture& ScenarioContext::fixture() {
  if (fixture_ != nullptr) return *fixture_;
  throw Error({.layer = Layer::Driver,
               .source = std::string(scenario_.id),
               .outcome = Outcome::Rejected,
               .recoverable = false,
               .next_step = "correct the scenario",
               .message = "a scenario with cards of its own asked for the shared one"});
}

ScenarioContext::Duration ScenarioContext::timeout() const {
  return conditions_.short_timeout ? Duration(kShortTimeout) : Duration(kTimeout);
}

FixtureOptions ScenarioContext::fixture_options() const {
  return {.shape = scenario_.shape, .conditions = conditions_};
}

Device& ScenarioContext::management() {
  if (management_) return *management_;
  management_ = value_or_throw(card().open_management());
  // What an earlier scenario armed and nobody met.
  value_or_throw(fault::FaultClient(*management_).disarm_all());
  next_row_ = 0;
  free_rows_.clear();
  return *management_;
}

void ScenarioContext::manage_by(std::shared_ptr<Device> management) { management_ = std::move(management); }

std::unique_ptr<Device> ScenarioContext::open(unsigned virtual_function, OpenOptions options) {
  return value_or_throw(card().open_virtual(virtual_function, std::move(options)));
}

Device& ScenarioContext::faulting() {
  if (!faulting_) faulting_ = open(kFaulting);
  return *faulting_;
}
BlockBuilder& ScenarioContext::builder() {
  if (!builder_) builder_ = std::make_unique<BlockBuilder>(faulting());
  return *builder_;
}
TestStream& ScenarioContext::stream() {
  if (!stream_) stream_ = std::make_unique<TestStream>(faulting());
  return *stream_;
}
Bystander& ScenarioContext::bystander() {
  if (!bystander_) {
    bystander_ = std::make_unique<Bystander>(open(kBystander));
    bystander_->begin();
  }
  return *bystander_;
}

wire::ControlBlock ScenarioContext::kernel(std::string_view name, std::uint64_t budget_slices) {
  const auto image = kernel_image(card(), name);
  const std::uint64_t at = std::exchange(next_image_, next_image_ + kImageStride);
  load_image(builder(), stream(), at, image);
  return builder().compute(at, image.size(), 1, budget_slices);
}

// ---- faults ---------------------------------------------------------------------------------------------------------

wire::FaultSpec ScenarioContext::any_fault(wire::FaultPoint point, wire::FaultAction action) {
  return fault::spec_of(point, action);
}

wire::FaultSpec ScenarioContext::fault_at_faulting(wire::FaultPoint point, wire::FaultAction action) {
  wire::FaultSpec spec = any_fault(point, action);
  spec.trigger.function = wire::target_of_virtual(kFaulting);
  return spec;
}

namespace {

// Slices, beats and iterations of hart 0's loop are as many as the machine lets the card have: only the first of them
// is certain to come. What a kernel is at is decided by its program.
bool counts_the_clock(const wire::FaultSpec& spec) {
  using wire::FaultPoint;
  const wire::FaultTrigger& trigger = spec.trigger;
  if (trigger.not_before != 0) return true;
  switch (spec.point) {
    case FaultPoint::Dispatcher:
    case FaultPoint::Firmware:
    case FaultPoint::FirmwareHart:
    case FaultPoint::Heartbeat: return trigger.first != 1;
    case FaultPoint::Kernel: return trigger.first != 1 && trigger.progress >= wire::kSomeProgress;
    default: return false;
  }
}

}  // namespace

const wire::FaultSpec& ScenarioContext::checked(const wire::FaultSpec& spec) {
  if (!counts_the_clock(spec)) return spec;
  throw Error({.layer = Layer::Driver,
               .source = std::string(wire::name(spec.point)),
               .outcome = Outcome::Rejected,
               .recoverable = false,
               .next_step = "correct the scenario: name what the program has done",
               .message = "a trigger of a scenario counts slices, beats, iterations or time"});
}

ScenarioContext::Fault ScenarioContext::arm(wire::FaultSpec spec) {
  (void)checked(spec);        // before a card is asked for
  Device& by = management();  // first: what it finds armed, it disarms
  Fault armed_row{next_row_};
  if (next_row_ == wire::kFaultRows && !free_rows_.empty()) {
    armed_row.row = free_rows_.back();
    free_rows_.pop_back();
  } else {
    ++next_row_;
  }
  spec.fault = armed_row.row;
  value_or_throw(fault::FaultClient(by).arm(checked(spec)));
  artifacts_->armed.push_back({.spec = spec, .evidence = {}});
  return armed_row;
}

wire::FaultEvidence ScenarioContext::evidence(Fault row) {
  const auto found = value_or_throw(fault::FaultClient(management()).query(row.row));
  // A row may have been armed before for another fault.
  const auto last = std::find_if(artifacts_->armed.rbegin(), artifacts_->armed.rend(),
                                 [&](const ArmedFault& armed) { return armed.spec.fault == row.row; });
  if (last != artifacts_->armed.rend()) {
    last->evidence = found;
    last->asked = true;
  }
  return found;
}

void ScenarioContext::disarm(Fault row) {
  value_or_throw(fault::FaultClient(management()).disarm(row.row));
  free_rows_.push_back(row.row);
}

void ScenarioContext::set_quota(std::uint64_t bytes) {
  const auto reply = campaign::set_quota(management(), wire::target_of_virtual(kFaulting), bytes);
  if (reply.outcome == Outcome::Ok) return;
  throw Error({.layer = Layer::Firmware,
               .source = "quota",
               .outcome = reply.outcome,
               .recoverable = true,
               .next_step = "correct the scenario",
               .message = "a quota was refused: " + std::string(wire::name(reply.status)),
               .status = reply.status});
}

// ---- proofs ---------------------------------------------------------------------------------------------------------

void ScenarioContext::trigger() { origin_ = Clock::now(); }

void ScenarioContext::prove(Proof proof, bool holds, const std::string& seen, std::string_view claim) {
  result_.claims.push_back({proof, std::string(claim), holds, seen});
  ProofResult& result = result_[proof];
  const bool first = !result.given;
  result.holds = (first || result.holds) && holds;
  result.given = true;
  if (!first && !result.seen.empty() && !seen.empty()) result.seen += "; ";
  result.seen += seen;
}

void ScenarioContext::claim(Proof proof, std::string_view name, bool holds, const std::string& seen) {
  const auto since = Clock::now() - origin_;
  if (proof == Proof::Detected && !result_.times.detect) result_.times.detect = since;
  if (proof == Proof::Recovered && !result_.times.recover) result_.times.recover = since;
  std::string text = holds ? std::string(name) : std::string(name) + (seen.empty() ? " does not hold" : ": " + seen);
  prove(proof, holds, text, name);
}

void ScenarioContext::fired(Fault fault) {
  const auto found = evidence(fault);
  fired(found.fired != 0, std::to_string(found.fired) + " of " + std::to_string(found.counted) + " occurrences");
}

void ScenarioContext::detected(std::string_view name, bool holds, const std::string& seen) {
  if (!result_.times.detect) result_.times.detect = Clock::now() - origin_;
  prove(Proof::Detected, holds, seen, name);
}

void ScenarioContext::contained() {
  const bool worked = bystander_ != nullptr;
  std::string wrong = worked ? bystander_->end(timeout()) : "there was no bystander function";
  const std::uint64_t rounds = worked ? bystander_->rounds() : 0;
  if (!result_.times.contain) result_.times.contain = Clock::now() - origin_;
  const bool holds = wrong.empty();
  contained("neighbour", holds, holds ? std::to_string(rounds) + " rounds of the neighbour, all right" : wrong);
}

void ScenarioContext::recovered(std::string_view name, bool holds, const std::string& seen) {
  if (!result_.times.recover) result_.times.recover = Clock::now() - origin_;
  prove(Proof::Recovered, holds, seen, name);
}

void ScenarioContext::detected_as(const std::optional<wire::Completion>& end, Outcome outcome, wire::Status status) {
  if (!end) return detected("outcome", false, "the block did not end");
  const bool right = end->outcome == outcome && (status == wire::Status::None || end->status == status);
  detected("outcome", right, std::string(wire::name(end->outcome)) + ", " + std::string(wire::name(end->status)));
}

std::string ScenarioContext::good_job(BlockBuilder& builder, TestStream& stream) {
  constexpr std::uint64_t kBytes = 256 * wire::kKiB, kOut = 0, kBack = 1 * wire::kMiB;
  const auto out = builder.host_words(kOut, kBytes);
  for (auto& word : out) word = random_();
  std::ranges::fill(builder.host_words(kBack, kBytes), 0);
  const wire::ControlBlock blocks[] = {BlockBuilder::dma(builder.host(kOut), builder.tensor(0), kBytes),
                                       BlockBuilder::dma(builder.tensor(0), builder.tensor(kBytes), kBytes),
                                       BlockBuilder::dma(builder.tensor(kBytes), builder.host(kBack), kBytes)};
  const std::size_t before = stream.ended();
  if (!stream.submit(blocks)) return "no room for a good job";
  if (!stream.wait_all(timeout())) return "a good job did not end";
  const auto all = stream.endings();
  for (std::size_t i = before; i < all.size(); ++i) {
    if (all[i].outcome != Outcome::Ok) {
      return "a good job ended " + std::string(wire::name(all[i].outcome)) + ", " +
             std::string(wire::name(all[i].status));
    }
  }
  return std::ranges::equal(out, builder.host_words(kBack, kBytes)) ? std::string()
                                                                    : "a good job's data came back wrong";
}

std::string ScenarioContext::good_job() {
  try {
    return good_job(builder(), stream());
  } catch (const Error& error) {
    return error.info().message;
  }
}

void ScenarioContext::recover_stream() {
  if (auto reset = stream().reset(); !reset) return recovered("stream", false, reset.error().message);
  const std::string wrong = good_job();
  recovered("stream", wrong.empty(), wrong.empty() ? "stream reset, good job" : wrong);
}

void ScenarioContext::recover_function() {
  close_faulting();
  const std::string wrong = good_job();
  recovered("function", wrong.empty(), wrong.empty() ? "function reset, good job" : wrong);
}

// ---- end ------------------------------------------------------------------------------------------------------------

namespace {

std::string hexadecimal(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace

void ScenarioContext::keep_trace(const TestStream& stream) {
  const auto blocks = stream.trace();
  artifacts_->trace.insert(artifacts_->trace.end(), blocks.begin(), blocks.end());
}

void ScenarioContext::keep_headers() {
  const auto keep = [&](const char* which, Device* device) {
    if (device == nullptr) return;
    const auto* window = device->host_memory().data() - device->host_memory_offset();
    artifacts_->headers[which] = hexadecimal({window, sizeof(wire::WindowHeader)});
    const auto bytes = std::min<std::uint64_t>(reinterpret_cast<const wire::WindowHeader*>(window)->record_bytes,
                                               wire::kFatalRecord.bytes);
    if (device == management_.get()) {
      artifacts_->record = hexadecimal({window + wire::kFatalRecord.offset, static_cast<std::size_t>(bytes)});
    }
  };
  keep("M", management_.get());
  keep("faulting", faulting_.get());
  if (bystander_) keep("bystander", &bystander_->device());
  if (fixture_ == nullptr) return;
  artifacts_->console = card().machine().console();
  artifacts_->versions["emulator"] = qemu::to_string(card().machine().version());
}

void ScenarioContext::close_faulting() {
  if (stream_) keep_trace(*stream_);
  stream_.reset();
  builder_.reset();
  faulting_.reset();
  next_image_ = 0;
}

void ScenarioContext::close() {
  if (!std::exchange(kept_, true)) keep_headers();
  close_faulting();
  bystander_.reset();
  management_.reset();
  artifacts_->versions["abi"] = std::to_string(wire::kAbiVersion);
  result_.artifacts = artifacts_;
}

std::optional<wire::FatalRecord> ScenarioContext::record_of_last_boot() {
  management_.reset();
  const Device& management = this->management();
  const auto* window = management.host_memory().data() - management.host_memory_offset();
  const auto& header = *reinterpret_cast<const wire::WindowHeader*>(window);
  if (header.record_bytes != sizeof(wire::FatalRecord)) return std::nullopt;
  wire::FatalRecord record;
  std::memcpy(&record, window + wire::kFatalRecord.offset, sizeof record);
  wire::FatalRecord blank = record;
  blank.crc32c = 0;
  const bool whole = record.magic == wire::kFatalRecordMagic && record.version == wire::kFatalRecordVersion &&
                     record.crc32c == wire::crc32c(0, &blank, sizeof blank);
  return whole ? std::optional(record) : std::nullopt;
}

// ---- observer -------------------------------------------------------------------------------------------------------

Observer::Observer(ScenarioContext& context)
    : context_(context),
      device_(context.open(kThird)),
      builder_(*device_),
      stream_(*device_),
      held_(*device_),
      last_good_(ScenarioContext::Clock::now()) {
  const wire::ControlBlock blocks[] = {load_kernel(builder_, stream_, context.card(), "spin", 0), BlockBuilder::nop(),
                                       BlockBuilder::nop()};
  (void)held_.submit(blocks);
  (void)held_.wait_started(1, context.timeout());
}

std::optional<ErrorInfo> Observer::wait_for_failure() {
  constexpr auto kOneJob = campaign_bounds::kLeftAlone;
  const auto limit = ScenarioContext::Clock::now() + context_.timeout();
  try {
    while (!device_->failure() && ScenarioContext::Clock::now() < limit) {
      if (stream_.submitted() - stream_.ended() < wire::kStreamCredits) (void)stream_.submit(BlockBuilder::nop());
      if (stream_.wait_all(kOneJob)) last_good_ = ScenarioContext::Clock::now();
    }
  } catch (const Error&) {  // submit() is refused when the card is gone
    return device_->failure();
  }
  return device_->failure();
}

namespace {

// Empty: each block ended once, OK before and LOST or INDETERMINATE after the end of the card.
std::string wrong_ending(const TestStream& stream, bool may_be_ok) {
  const auto all = stream.endings();
  if (all.size() != stream.submitted()) {
    return std::to_string(stream.submitted() - all.size()) + " blocks of " + std::to_string(stream.submitted()) +
           " never ended";
  }
  bool over = !may_be_ok;
  for (const auto& end : all) {
    const bool lost = end.outcome == Outcome::Lost || end.outcome == Outcome::Indeterminate;
    if (!lost && (over || end.outcome != Outcome::Ok)) return "a block ended " + std::string(wire::name(end.outcome));
    over |= lost;
  }
  return {};
}

}  // namespace

std::string Observer::typed() const {
  std::string wrong = wrong_ending(stream_, true);
  return wrong.empty() ? wrong_ending(held_, false) : wrong;
}

}  // namespace svp::campaign
