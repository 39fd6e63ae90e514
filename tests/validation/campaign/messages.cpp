// SPDX-License-Identifier: Apache-2.0
// F5: control messages that the card must refuse. A refusal does not say why. So each bad message differs in one field
// from a message that the card accepts at that stage, and the good form of each kind is sent as well.
#include <string>
#include <vector>

#include "shared/memory_order.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using raw::RawDriver;
using wire::MessageOp;

constexpr std::uint32_t kAcknowledgeDriver = wire::kStatusAcknowledge | wire::kStatusDriver;
constexpr std::uint32_t kFeaturesLatched = kAcknowledgeDriver | wire::kStatusFeaturesOk;
constexpr std::uint32_t kQueue = wire::kControlBlockQueue;

// A response without payload is the card's way to refuse a message; config space that is not there has no bytes.
bool is_refusal(const std::optional<wire::Message>& answer) {
  if (!answer) return false;
  wire::ConfigData data{};
  const bool config = answer->header.op == static_cast<std::uint8_t>(MessageOp::GetConfig);
  if (config && wire::read_payload(*answer, data)) return data.bytes == 0;
  return answer->header.size == sizeof(wire::MessageHeader);
}

wire::SetQueue good_queue() {
  const wire::QueueLayout& layout = wire::kQueueLayouts[kQueue];
  return {kQueue, 0, layout.size, 0, layout.descriptors, layout.driver_area, layout.device_area};
}

class Messages {
 public:
  Messages(ScenarioContext& context, RawDriver& driver) : context_(context), driver_(driver) {}

  // One claim per message: it was refused.
  void refused(std::string_view name, const wire::Message& message) {
    const auto answer = driver_.call(message);
    ++sent_;
    const bool config = message.header.op == static_cast<std::uint8_t>(MessageOp::GetConfig);
    refused_ += is_refusal(answer) && !config ? 1 : 0;  // no config space there: an answer, and no violation
    context_.claim(Proof::Detected, name, is_refusal(answer), answer ? "accepted" : "no answer");
  }
  template <typename T>
  void refused(std::string_view name, MessageOp op, const T& payload) {
    refused(name, driver_.request(op, payload));
  }
  template <typename Spoil>
  void refused_frame(std::string_view name, Spoil spoil) {
    // Without payload, so that nothing but its frame can be wrong.
    wire::Message message = driver_.bare_request(MessageOp::GetDeviceStatus);
    spoil(message);
    refused(name, message);
  }

  // One claim per queue: it was refused, and none is set up. What was accepted is taken down, so that the next one is
  // refused for itself.
  template <typename Spoil>
  void refused_queue(std::string_view name, Spoil spoil) {
    wire::SetQueue queue = good_queue();
    spoil(queue);
    const auto answer = driver_.call(driver_.request(MessageOp::SetVirtqueue, queue));
    ++sent_;
    refused_ += is_refusal(answer) ? 1 : 0;
    const std::uint32_t size = size_of_queue();
    context_.claim(Proof::Detected, name, is_refusal(answer) && size == 0, answer ? "accepted" : "no answer");
    if (size != 0) (void)driver_.reset_queue(kQueue);
  }
  // A good one of this size is accepted, and can be taken down again.
  void accepted_queue(std::string_view name, std::uint32_t size) {
    wire::SetQueue queue = good_queue();
    queue.size = size;
    const auto answer = driver_.call(driver_.request(MessageOp::SetVirtqueue, queue));
    wire::QueueState state{};
    const bool set = answer && wire::read_payload(*answer, state) && state.size == size && size_of_queue() == size;
    context_.claim(Proof::Detected, name, set && driver_.reset_queue(kQueue) && size_of_queue() == 0, "refused");
  }

  // A step of the status that is not allowed changes nothing; the answer shows the old one.
  void refused_status(std::string_view name, std::uint32_t wanted, std::uint32_t unchanged) {
    const std::uint32_t now = driver_.set_status(wanted);
    ++sent_;
    context_.claim(Proof::Detected, name, now == unchanged, "the status is " + std::to_string(now));
  }

  std::size_t sent() const { return sent_; }
  std::uint64_t refusals() const { return refused_; }

 private:
  std::uint32_t size_of_queue() {
    const auto answer = driver_.call(driver_.request(MessageOp::GetVirtqueue, wire::QueueIndex{kQueue}));
    wire::QueueState state{};
    return answer && wire::read_payload(*answer, state) ? state.size : ~0u;
  }

  ScenarioContext& context_;
  RawDriver& driver_;
  std::size_t sent_ = 0;
  std::uint64_t refused_ = 0;
};

// In any state.
void send_bad_frames(Messages& messages, RawDriver& driver) {
  messages.refused_frame("frame/operation", [](auto& m) { m.header.op = 0x33; });
  messages.refused_frame("frame/event",
                         [](auto& m) { m.header.op = static_cast<std::uint8_t>(MessageOp::EventConfig); });
  messages.refused_frame("frame/device", [](auto& m) { m.header.device = 1; });
  messages.refused_frame("frame/response", [](auto& m) { m.header.type = wire::kMessageResponse; });
  messages.refused_frame("frame/too-short", [](auto& m) { m.header.size = sizeof(wire::MessageHeader) - 1; });
  messages.refused_frame("frame/too-long", [](auto& m) { m.header.size = wire::kMessageBytes + 1; });
  wire::Message bus = driver.request(MessageOp::GetDeviceStatus, wire::Ping{});  // of a ping but for its operation
  bus.header.type = wire::kMessageBus;
  messages.refused("frame/bus-operation", bus);
  messages.refused("frame/no-payload", driver.bare_request(MessageOp::SetDeviceStatus));
  messages.refused("config/over-the-end", MessageOp::GetConfig, wire::ConfigRange{sizeof(wire::DeviceConfig) - 4, 8});
  messages.refused("config/more-than-a-message", MessageOp::GetConfig, wire::ConfigRange{0, wire::kConfigChunk + 4});
  messages.refused("queue/index-unknown", MessageOp::GetVirtqueue, wire::QueueIndex{wire::kQueueCount});
}

wire::FeatureBlocks features(std::uint64_t bits) {
  return {0, 2, {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)}};
}

// From status 0 to FEATURES_OK. False when the card does not come that far.
bool latch_features(Messages& messages, RawDriver& driver) {
  constexpr std::uint64_t kNotOffered = wire::feature_bit(63);
  messages.refused_status("status/skips-a-step", kAcknowledgeDriver, wire::kStatusReset);
  if (driver.set_status(wire::kStatusAcknowledge) != wire::kStatusAcknowledge) return false;
  if (driver.set_status(kAcknowledgeDriver) != kAcknowledgeDriver) return false;
  auto far = features(wire::kMandatoryFeatures);
  far.first_block = 2;
  messages.refused("features/other-blocks", MessageOp::SetDriverFeatures, far);
  messages.refused("features/not-offered", MessageOp::SetDriverFeatures,
                   features(wire::kMandatoryFeatures | kNotOffered));
  if (!driver.set_features(wire::kMandatoryFeatures & ~wire::kFeatureRingReset)) return false;
  messages.refused_status("features/mandatory-missing", kFeaturesLatched, kAcknowledgeDriver);
  if (!driver.set_features(wire::kMandatoryFeatures)) return false;
  messages.refused("queue/before-features", MessageOp::SetVirtqueue, good_queue());
  return driver.set_status(kFeaturesLatched) == kFeaturesLatched;
}

// With features latched, each for one reason.
void send_bad_queues(Messages& messages, RawDriver& driver) {
  constexpr std::uint64_t kFirmware = 0x8000'0000;
  const std::uint64_t window = driver.header().window_bytes;
  const wire::QueueLayout& layout = wire::kQueueLayouts[kQueue];
  messages.refused("features/late", MessageOp::SetDriverFeatures, features(wire::kMandatoryFeatures));
  messages.refused("queue/reset-not-set-up", MessageOp::ResetVirtqueue, wire::QueueIndex{kQueue});
  messages.accepted_queue("queue/good", layout.size);
  messages.accepted_queue("queue/size-3-is-legal", 3);  // packed: no power of two (VIRTIO 1.4 §2.8.10.1)
  messages.refused_queue("queue/set-unknown", [](auto& q) { q.index = wire::kQueueCount; });
  messages.refused_queue("queue/size-0", [](auto& q) { q.size = 0; });
  messages.refused_queue("queue/size-over-maximum", [](auto& q) { q.size = wire::kControlBlockQueueSize + 1; });
  messages.refused_queue("queue/size-over-its-maximum", [](auto& q) {
    q.index = wire::kAdminQueue;
    q.size = wire::kAdminQueueSize + 1;
  });
  messages.refused_queue("queue/reserved", [](auto& q) { q.reserved = 1; });
  messages.refused_queue("queue/misaligned-descriptors", [](auto& q) { q.descriptors += 8; });
  messages.refused_queue("queue/misaligned-driver-area", [](auto& q) { q.driver_area += 2; });
  messages.refused_queue("queue/misaligned-device-area", [](auto& q) { q.device_area += 2; });
  messages.refused_queue("queue/in-firmware-memory", [](auto& q) { q.descriptors = kFirmware; });
  messages.refused_queue("queue/beyond-window", [&](auto& q) { q.descriptors = window; });
  messages.refused_queue("queue/over-the-block", [](auto& q) { q.descriptors = wire::kQueueBlock.end() - 1024; });
  messages.refused_queue("queue/in-the-header", [](auto& q) { q.descriptors = 0; });
  messages.refused_queue("queue/driver-area-outside", [](auto& q) { q.driver_area = wire::kHeaderBlock.end() - 4; });
  messages.refused_queue("queue/device-area-outside", [](auto& q) { q.device_area = wire::kHeaderBlock.end() - 4; });
  (void)driver.set_queue(kQueue);
  messages.refused("queue/twice", MessageOp::SetVirtqueue, good_queue());
  messages.refused("queue/reset-unknown", MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kQueueCount});
}

std::uint64_t violations(ScenarioContext& context) {
  return test::figures_of(context.management(), wire::target_of_virtual(kThird)).violations;
}

// The card reads nothing of a FIFO whose index cannot be: further ahead than the FIFO is long.
void send_impossible_index(ScenarioContext& context, RawClient& client) {
  auto& fifo = *client.driver().at<wire::Fifo>(wire::kFifoToCard.offset);
  const auto written = wire::load_relaxed(fifo.written);
  const auto read = wire::load_acquire(fifo.read);
  bool nothing_read = true;
  for (const std::uint32_t jump : {wire::kFifoSlots + 1, 1u << 31, ~0u}) {
    wire::store_release(fifo.written, written + jump);
    client.slot().pump();
    context.contained("neighbour goes on", context.bystander().gets_on(context.timeout()), {});
    nothing_read = nothing_read && wire::load_acquire(fifo.read) == read;
  }
  context.claim(Proof::Detected, "fifo/impossible-index", nothing_read, "messages were taken from it");
  wire::store_release(fifo.written, wire::load_acquire(fifo.read));
}

}  // namespace

void malformed_control_messages(ScenarioContext& context) {
  context.bystander();
  RawClient client(context);
  RawDriver& driver = client.driver();
  if (driver.set_status(0) != 0) return context.fired(false, "the function cannot be reset");
  const std::uint64_t before = violations(context);
  Messages messages(context, driver);
  context.trigger();
  send_bad_frames(messages, driver);
  const bool latched = latch_features(messages, driver);
  if (latched) send_bad_queues(messages, driver);
  context.fired(latched && messages.sent() != 0, std::to_string(messages.sent()) + " malformed messages");
  const std::uint64_t counted = violations(context) - before;
  context.claim(Proof::Detected, "each-counted", counted == messages.refusals(),
                std::to_string(counted) + " violations of " + std::to_string(messages.refusals()));
  send_impossible_index(context, client);
  context.contained();
  const std::string works = client.works();
  context.recovered("good job", works.empty(), works.empty() ? "brought up, good job" : works);
}

}  // namespace svp::campaign
