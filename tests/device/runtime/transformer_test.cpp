// SPDX-License-Identifier: Apache-2.0
// A decoder on the card, token by token, against the same in double precision.
#include "host_driver/models/transformer.hpp"

#include <cmath>

#include "tests/device/runtime/shared_context.hpp"

namespace svp {
namespace {

class TransformerOnCard : public test::OneCard {};

TEST_F(TransformerOnCard, LogitsAreWithinTheirBoundAndReplaysAreTheSameBits) {
  models::TransformerConfig config;
  config.heads = 2;
  config.positions = 12;
  const models::TransformerWeights weights = models::make_weights(config);
  models::ReferenceTransformer reference(config, weights);
  Operations operations(context());
  models::Transformer model(context(), operations, config, weights);
  std::vector<std::vector<float>> first;
  unsigned token = 1;
  for (unsigned i = 0; i < config.positions; ++i) {
    EXPECT_EQ(model.replays(), i >= 2) << i;
    first.push_back(model.step(token));
    const std::vector<double> expected = reference.step(token);
    const double largest = std::fabs(*std::ranges::max_element(expected, {}, [](double x) { return std::fabs(x); }));
    for (std::size_t j = 0; j < expected.size(); ++j) {
      ASSERT_NEAR(static_cast<double>(first.back()[j]), expected[j], models::kLogitBound * largest)
          << "token " << i << " logit " << j;
    }
    token = (token * 37 + 11) % config.vocabulary;
  }
  EXPECT_THROW(model.step(0), InvalidArgument);
  // The same sequence again: every token is replayed now.
  model.restart();
  token = 1;
  for (unsigned i = 0; i < config.positions; ++i) {
    EXPECT_EQ(model.step(token), first[i]) << i;
    token = (token * 37 + 11) % config.vocabulary;
  }
}

}  // namespace
}  // namespace svp
