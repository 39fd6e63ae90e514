// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <random>

#include "host_driver/models/transformer.hpp"
#include "shared/dl16.hpp"

namespace svp::models {
namespace {

class Weights {
 public:
  explicit Weights(std::uint64_t seed) : random_(seed) {}

  Matrix normal(std::vector<std::int64_t> size, double deviation, double mean = 0) {
    Matrix matrix{.size = std::move(size), .values = {}};
    std::int64_t count = 1;
    for (const std::int64_t extent : matrix.size) count *= extent;
    matrix.values.resize(static_cast<std::size_t>(count));
    for (float& value : matrix.values) {
      value = wire::fp32_from_dl16(wire::dl16_from_fp64(mean + deviation * standard_normal()));
    }
    return matrix;
  }

 private:
  // Box and Muller: the same numbers with every standard library.
  double standard_normal() {
    const double u = (static_cast<double>(random_() >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(random_() >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

  std::mt19937_64 random_;
};

}  // namespace

TransformerWeights make_weights(const TransformerConfig& config) {
  Weights make(config.seed);
  const std::int64_t width = config.width();
  const std::int64_t inner = width * config.mlp_factor;
  const double deviation = 1 / std::sqrt(static_cast<double>(width));
  TransformerWeights weights;
  weights.token = make.normal({config.vocabulary, width}, 1);
  weights.position = make.normal({config.positions, width}, 0.3);
  for (unsigned i = 0; i < config.layers; ++i) {
    LayerWeights layer;
    layer.norm1 = make.normal({width}, 0.1, 1);
    layer.bias1 = make.normal({width}, 0.1);
    layer.query = make.normal({width, width}, deviation);
    layer.key = make.normal({width, width}, deviation);
    layer.value = make.normal({width, width}, deviation);
    layer.output = make.normal({width, width}, deviation);
    layer.norm2 = make.normal({width}, 0.1, 1);
    layer.bias2 = make.normal({width}, 0.1);
    layer.up = make.normal({width, inner}, deviation);
    layer.up_bias = make.normal({inner}, 0.1);
    layer.down = make.normal({inner, width}, 1 / std::sqrt(static_cast<double>(inner)));
    layer.down_bias = make.normal({width}, 0.1);
    weights.layers.push_back(std::move(layer));
  }
  weights.norm = make.normal({width}, 0.1, 1);
  weights.bias = make.normal({width}, 0.1);
  weights.logits = make.normal({width, config.vocabulary}, deviation);
  return weights;
}

}  // namespace svp::models
