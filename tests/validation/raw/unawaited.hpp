// SPDX-License-Identifier: Apache-2.0
// A hostile tenant that never waits: admin requests (streams reset, closed and opened, regions acquired and released,
// blocks cancelled) are sent without waiting for their replies, together with control blocks of the incarnation that a
// stream will have next, and with resets of the queue and of the function in between.
//
// What it holds the card to: each request is answered once, no block ends twice, and resets are answered. Throws Broken
// when the card breaks that. What the card's own state has to look like meanwhile says the test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/validation/raw/raw_driver.hpp"

namespace raw {

class UnawaitedRequests {
 public:
  struct Image {
    std::vector<std::byte> bytes;
    std::uint64_t offset = 0;  // in the Program region; set by begin()
  };
  // The driver's pump lets card and cores work for a while. Images may be empty (a card without kernels); a kernel that
  // never ends is welcome, it is ended by resets.
  UnawaitedRequests(RawDriver& driver, std::vector<Image> images, std::uint64_t seed);

  // From status 0: two regions and the images.
  void begin();
  // One random action, and what has been answered meanwhile.
  void step();
  // Resets every stream and waits until nothing is outstanding.
  void drain();

  std::uint64_t requests() const { return requests_; }
  std::uint64_t blocks() const { return blocks_; }
  std::uint64_t blocks_ok() const { return blocks_ok_; }
  std::uint64_t queue_resets() const { return queue_resets_; }
  std::uint64_t function_resets() const { return function_resets_; }

 private:
  struct Known {  // of a stream, as last told
    std::uint32_t incarnation = 0;
    std::uint64_t next_sequence = 1;
    bool open = false;
  };
  struct Pending {
    std::uint16_t slot;
    wire::AdminCommand command;
  };
  static constexpr unsigned kStreams = 6;  // attacked ones: few, so that requests meet

  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  StreamHandle guess(unsigned stream);
  void load_image(Image& image);
  void submit_burst();
  wire::ControlBlock make_block(StreamHandle& stream);
  void send_request();
  wire::AdminRequest make_request();
  void take_replies();
  void note_reply(const Pending& pending, const wire::AdminReply& reply);
  void take_blocks();
  void reset_queue();
  void end_streams();

  RawDriver& driver_;
  std::vector<Image> images_;
  std::mt19937_64 random_;
  std::vector<Known> streams_;
  std::vector<Pending> pending_;
  std::vector<RegionHandle> regions_;
  RegionHandle program_{};
  std::uint64_t requests_ = 0;
  std::uint64_t blocks_ = 0;
  std::uint64_t blocks_ok_ = 0;
  std::uint64_t queue_resets_ = 0;
  std::uint64_t function_resets_ = 0;
};

}  // namespace raw
