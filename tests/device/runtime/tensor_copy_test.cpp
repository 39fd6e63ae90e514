// SPDX-License-Identifier: Apache-2.0
// Random tensors, layouts, views and formats through the real card, every byte against a model (tests/support).
// SPYRE_COPIES: how many; SPYRE_SEED: repeat a run.
#include "tests/support/tensor_copies.hpp"

#include <cstdio>
#include <random>

#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

class TensorCopy : public test::OneCard {};

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST_F(TensorCopy, AgreesWithTheModelInEveryByte) {
  constexpr std::uint64_t kOfTheGate = 6000;
  const std::uint64_t seed = number("SPYRE_SEED", std::random_device{}());
  SpyreStream default_stream = context().default_stream();
  test::TensorCopies copies(context().runtime(), context().allocator(), default_stream, seed);
  const auto wrong = copies.run(number("SPYRE_COPIES", kOfTheGate));
  const test::CopyCounts& counts = copies.counts();
  std::printf(
      "%zu copies: %zu to the card, %zu to the host, %zu on the card, %zu restickified; %zu elements; seed %llu\n",
      counts.copies(), counts.to_card, counts.to_host, counts.on_card, counts.restickified, counts.elements,
      static_cast<unsigned long long>(seed));
  EXPECT_FALSE(wrong) << *wrong;
}

}  // namespace
}  // namespace svp
