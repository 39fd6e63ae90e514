// SPDX-License-Identifier: Apache-2.0
// Good control blocks with one field spoilt, and what must hold after each: REJECTED with the name of the field,
// nothing executed, nothing written, and the ring goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tests/conformance/provider.hpp"

namespace svp::conformance {

enum class Base { Nop, ToDevice, FromDevice, OnDevice, Fill, Compute };

struct BadField {
  const char* what;
  Base base;
  std::function<void(wire::ControlBlock&)> spoil;
  wire::Status status;
  wire::Field field;
  bool names_no_stream = false;  // then no stream may be poisoned
};

// The cases of the header, which every block has.
void add_header_cases(std::vector<BadField>& cases, Base base);
// Of an end in a region (`device`) or in host memory.
void add_endpoint_cases(std::vector<BadField>& cases, Base base, wire::Field field, bool device,
                        wire::Endpoint& (*at)(wire::ControlBlock&));

// A function with two streams, a filled Tensor region and canaries in host memory. The parameter: with CRC or without.
class RefusedBlocks : public testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kMax = ~std::uint64_t{0};
  static constexpr std::uint64_t kBytes = 512;  // of a good transfer

  void SetUp() override;
  void TearDown() override;

  virtual wire::ControlBlock good(Base base) const;
  // The header that the driver would write.
  wire::ControlBlock addressed(wire::ControlBlock block) const;
  // As the card sees it: the driver sends 1 to 4 sticks whatever the header claims.
  void seal(wire::ControlBlock& block) const;
  wire::Completion send(const wire::ControlBlock& block);
  // Of the victim stream, after a refusal: back to where a good block with sequence 1 is expected.
  void heal();
  std::uint64_t launches() const;

  // Host memory and region memory as they were; the reading back is itself a good block on another stream.
  void expect_nothing_written();
  void expect_rejected(const BadField& bad);

  std::unique_ptr<Device> device_;
  std::optional<test::Workbench> bench_;
  std::uint32_t victim_ = 0;
  std::uint32_t other_ = 0;
  std::uint64_t sequence_ = 1;  // of the victim stream: what the card expects next
  std::uint64_t cookie_ = 0;
  std::vector<std::byte> canary_;

 private:
  void expect_stream_unharmed();
  void expect_stream_poisoned_until_reset();
};

}  // namespace svp::conformance
