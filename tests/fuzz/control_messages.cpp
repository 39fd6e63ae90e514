// SPDX-License-Identifier: Apache-2.0
// The control plane of a function: any messages in any order, with the FIFO's words and slots changed under the card.
// Each message that the card takes is answered at most once, and exactly once when the FIFO had room; nobody else
// notices.
#include "shared/memory_order.hpp"
#include "tests/fuzz/native_attacker.hpp"

namespace {

using fuzz::Input;
using fuzz::require;

class Messages {
 public:
  explicit Messages(Input input) : input_(input) { attacker_.begin(input_.below(2) != 0); }

  void run() {
    while (!input_.empty()) step();
    attacker_.settle();
    receive();
    // What was sent by the book, and answers read in time: one answer each. Resets are answered when they have ended.
    if (honest_) require(answered_ == sent_, "every message is answered exactly once");
    attacker_.expect_contained();
  }

 private:
  fwtest::RawDriver& driver() { return attacker_.driver(); }

  void step() {
    switch (input_.below(8)) {
      case 0:
      case 1:
      case 2: return send(well_framed());
      case 3: return send(input_.take<wire::Message>());
      case 4: return attacker_.run_iterations(1 + input_.below(8));
      case 5: return receive();
      case 6: return bring_up(input_.below(12), input_.take<std::uint64_t>());
      default: return break_fifo();
    }
  }

  // The first steps of a bring-up, as a driver sends them.
  void bring_up(unsigned steps, std::uint64_t choice) {
    constexpr std::uint32_t kStatus[] = {0, 1, 3};
    const std::uint64_t features = wire::kMandatoryFeatures | (choice & wire::kOfferedFeatures);
    for (unsigned i = 0; i < steps; ++i) {
      if (i < 3) {
        send(status(kStatus[i]));
      } else if (i == 3) {
        send(driver().request(
            wire::MessageOp::SetDriverFeatures,
            wire::FeatureBlocks{
                0, 2, {static_cast<std::uint32_t>(features), static_cast<std::uint32_t>(features >> 32)}}));
      } else if (i == 4) {
        send(status(3 | wire::kStatusFeaturesOk));
      } else if (i < 5 + wire::kQueueCount) {
        const auto& layout = wire::kQueueLayouts[i - 5];
        send(driver().request(
            wire::MessageOp::SetVirtqueue,
            wire::SetQueue{i - 5, 0, layout.size, 0, layout.descriptors, layout.driver_area, layout.device_area}));
      } else if (i == 5 + wire::kQueueCount) {
        send(status(3 | wire::kStatusFeaturesOk | wire::kStatusDriverOk));
      } else {
        send(driver().request(wire::MessageOp::ResetVirtqueue, wire::QueueIndex{i % wire::kQueueCount}));
      }
    }
  }
  wire::Message status(std::uint32_t value) {
    return driver().request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{value});
  }

  wire::Message well_framed() {
    wire::Message message{};
    const auto payload = static_cast<std::uint16_t>(input_.below(wire::kMessageBytes - sizeof message.header + 1));
    message.header = {static_cast<std::uint8_t>(input_.below(16) == 0 ? wire::kMessageBus : 0),
                      static_cast<std::uint8_t>(input_.below(13)), 0, 0,
                      static_cast<std::uint16_t>(sizeof message.header + payload)};
    const auto bytes = input_.bytes(payload);
    if (!bytes.empty()) std::memcpy(message.bytes.data(), bytes.data(), bytes.size());
    return message;
  }

  void send(wire::Message message) {
    if (in_flight() >= wire::kFifoSlots / 2) {
      attacker_.settle();
      receive();
    }
    message.header.token = ++token_;
    driver().send(message);
    ++sent_;
  }
  std::uint64_t in_flight() const { return sent_ - answered_; }

  void receive() {
    while (const auto answer = driver().receive()) {
      if ((answer->header.type & wire::kMessageResponse) == 0) continue;  // an event
      ++answered_;
      if (honest_) require(answered_ <= sent_, "no message is answered twice");
    }
  }

  // Any word of the page that the driver writes; from then on answers are not counted.
  void break_fifo() {
    honest_ = false;
    const std::uint64_t at = wire::kFifoToCard.offset + input_.below(wire::kFifoToCard.bytes / 8) * 8;
    if (at == wire::kFifoToCard.offset + offsetof(wire::Fifo, read)) return;  // how the driver finds back into step
    wire::store_relaxed(*driver().at<std::uint64_t>(at), input_.take<std::uint64_t>());
  }

  Input input_;
  fuzz::NativeAttacker& attacker_ = fuzz::NativeAttacker::instance();
  std::uint16_t token_ = 1000;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  bool honest_ = true;
};

}  // namespace

void fuzz::run(Input input) { Messages(input).run(); }
