// SPDX-License-Identifier: Apache-2.0
// A small decoder: embedding, layers of attention and MLP with layer norms before them, logits. Weights by seed. What
// `spyre run transformer` runs: one token at a time, with keys and values kept on the card, and the launches of a token
// captured once and replayed for every other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/ops/operations.hpp"

namespace svp::models {

// A logit may be off by so much of the largest one of its token: DL16 has ten bits, and the errors of the layers add
// up.
inline constexpr double kLogitBound = 0.05;

struct TransformerConfig {
  unsigned layers = 2;
  unsigned heads = 4;
  unsigned head_width = 64;  // a stick, so that heads are views
  unsigned vocabulary = 256;
  unsigned positions = 64;  // the longest sequence
  unsigned mlp_factor = 4;
  std::uint64_t seed = 1;

  std::int64_t width() const { return std::int64_t{heads} * head_width; }
};

// Row-major values that DL16 holds exactly.
struct Matrix {
  std::vector<std::int64_t> size;
  std::vector<float> values;
};

struct LayerWeights {
  Matrix norm1, bias1, query, key, value, output, norm2, bias2, up, up_bias, down, down_bias;
};
struct TransformerWeights {
  Matrix token, position, norm, bias, logits;
  std::vector<LayerWeights> layers;
};
TransformerWeights make_weights(const TransformerConfig& config);

// The same model in double precision on the host.
class ReferenceTransformer {
 public:
  ReferenceTransformer(const TransformerConfig& config, const TransformerWeights& weights);
  ~ReferenceTransformer();
  std::vector<double> step(unsigned token);

 private:
  struct Layer;
  const TransformerConfig config_;
  const TransformerWeights& weights_;
  std::vector<Layer> cache_;
  std::size_t at_ = 0;
};

// What one operation of a step is, in the order of the launches.
struct StepPart {
  std::string name;  // "layer 0 query"
  std::string op;    // "matmul"
};

class Transformer {
 public:
  // Sends the weights. The context outlives it; the stream is the model's while step() runs.
  Transformer(Context& context, Operations& operations, const TransformerConfig& config,
              const TransformerWeights& weights);
  ~Transformer();
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

  // The logits behind this token. The first two steps launch operation by operation and capture; later ones replay.
  // Throws InvalidArgument ("token": not of the vocabulary; "position": the sequence is full), and what launches throw.
  std::vector<float> step(unsigned token);
  void restart();  // position 0 again
  unsigned position() const { return position_; }
  bool replays() const { return prepared_ != nullptr; }
  // Launched operation by operation, waiting for each: microseconds of each, in the order of parts().
  std::vector<double> time_parts(unsigned token);
  const std::vector<StepPart>& parts() const { return parts_; }

 private:
  struct Layer;

  SpyreTensor to_card(const Matrix& matrix);
  void write_inputs(unsigned token);
  void launch_step();
  SpyreTensor layer(std::size_t number, SpyreTensor hidden);
  SpyreTensor attend(std::size_t number, const SpyreTensor& normed);
  SpyreTensor op(const std::string& part, ops::Op op, std::vector<SpyreTensor> inputs, std::vector<double> scalars = {},
                 std::vector<std::int64_t> integers = {}, std::optional<SpyreTensor> out = std::nullopt);

  Context& context_;
  Operations& operations_;
  const TransformerConfig config_;
  SpyreStream stream_;
  std::vector<Layer> layers_;
  SpyreTensor token_table_, position_table_, norm_, bias_, logits_weight_, mask_;
  SpyreTensor token_, position_index_;  // one int32 each
  PinnedBuffer inputs_, outputs_;
  unsigned position_ = 0;
  unsigned eager_steps_ = 0;
  std::shared_ptr<PreparedLaunches> prepared_;
  std::vector<StepPart> parts_;
  std::vector<double>* times_ = nullptr;  // while time_parts() runs
};

}  // namespace svp::models
