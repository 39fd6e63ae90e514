// SPDX-License-Identifier: Apache-2.0
// `spyre run transformer`: a small decoder, token by token, against the same in double precision.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/models/transformer.hpp"

namespace cli {
namespace {

using Clock = std::chrono::steady_clock;
using svp::models::kLogitBound;

struct TransformerRun {
  std::string device;
  unsigned cores = 0;
  std::vector<unsigned> tokens;
  double tokens_per_second = 0;                       // of the replayed ones
  double worst = 0;                                   // error of a logit, of the largest of its token
  unsigned same_choice = 0;                           // tokens for which card and reference choose the same next one
  std::vector<std::pair<std::string, double>> by_op;  // microseconds of one token, largest first
  unsigned launches = 0;                              // operations of a token

  bool passed() const { return worst <= kLogitBound; }
};

template <typename T>
unsigned best_of(const std::vector<T>& logits) {
  return static_cast<unsigned>(std::ranges::max_element(logits) - logits.begin());
}

void compare_step(const std::vector<float>& got, const std::vector<double>& expected, TransformerRun& run) {
  double largest = 0;
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    const double off = std::fabs(static_cast<double>(got[i]) - expected[i]);
    error = std::isnan(off) ? HUGE_VAL : std::max(error, off);
  }
  run.worst = std::max(run.worst, error / largest);
  run.same_choice += best_of(got) == best_of(expected) ? 1 : 0;
}

// The reference chooses the next token, so that both see the same sequence.
void generate(svp::models::Transformer& model, svp::models::ReferenceTransformer& reference, unsigned tokens,
              TransformerRun& run) {
  unsigned token = 1;
  double seconds = 0;
  unsigned replayed = 0;
  for (unsigned i = 0; i < tokens; ++i) {
    const bool replay = model.replays();
    const auto start = Clock::now();
    const std::vector<float> logits = model.step(token);
    if (replay) {
      seconds += std::chrono::duration<double>(Clock::now() - start).count();
      ++replayed;
    }
    const std::vector<double> expected = reference.step(token);
    compare_step(logits, expected, run);
    token = best_of(expected);
    run.tokens.push_back(token);
  }
  run.tokens_per_second = seconds == 0 ? 0 : replayed / seconds;
}

void measure_parts(svp::models::Transformer& model, TransformerRun& run) {
  model.restart();
  const std::vector<double> times = model.time_parts(1);
  std::map<std::string, double> sums;
  for (std::size_t i = 0; i < times.size(); ++i) sums[model.parts()[i].op] += times[i];
  run.by_op.assign(sums.begin(), sums.end());
  std::ranges::sort(run.by_op, std::greater<>{}, &std::pair<std::string, double>::second);
  run.launches = static_cast<unsigned>(times.size());
}

void print_transformer(const RunTransformerOptions& options, const TransformerRun& run) {
  fmt::print("\nDecoder of {} layers, {} heads of 64, vocabulary 256, {} positions, on {} ({} cores)\n", options.layers,
             options.heads, options.tokens, run.device, run.cores);
  fmt::print("  {} tokens, {:.1f} tokens/s replayed; {} operations per token, captured once\n", run.tokens.size(),
             run.tokens_per_second, run.launches);
  fmt::print("  logits within {:.2g} of the largest (bound {}); the same next token for {} of {}\n\n", run.worst,
             kLogitBound, run.same_choice, run.tokens.size());
  double total = 0;
  for (const auto& entry : run.by_op) total += entry.second;
  for (const auto& [op, time] : run.by_op) {
    const auto width = static_cast<std::size_t>(std::lround(40 * time / total));
    fmt::print("  {:12} {:>9} {:5.1f} % {}\n", op, format_time_us(time), 100 * time / total, std::string(width, '#'));
  }
  fmt::print("  one token, operation by operation, each waited for: {}\n  {}\n\n", format_time_us(total),
             run.passed() ? "PASSED" : "FAILED");
}

nlohmann::ordered_json transformer_json(const RunTransformerOptions& options, const TransformerRun& run) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::object();
  for (const auto& [op, time] : run.by_op) ops[op] = time / 1e6;
  return {{"model", "transformer"},
          {"layers", options.layers},
          {"heads", options.heads},
          {"tokens", run.tokens},
          {"seed", options.seed},
          {"device", run.device},
          {"cores", run.cores},
          {"tokens_per_second", run.tokens_per_second},
          {"operations_per_token", run.launches},
          {"seconds_by_operation", std::move(ops)},
          {"largest_relative_error", run.worst},
          {"error_bound", kLogitBound},
          {"same_choices", run.same_choice},
          {"passed", run.passed()}};
}

}  // namespace

int run_transformer(const RunTransformerOptions& options) {
  TransformerRun run;
  svp::models::TransformerConfig config;
  config.layers = options.layers;
  config.heads = options.heads;
  config.positions = std::max(2U, options.tokens);
  config.seed = options.seed;
  const svp::models::TransformerWeights weights = svp::models::make_weights(config);
  svp::models::ReferenceTransformer reference(config, weights);
  {
    Progress progress("booting the card");
    svp::ContextOptions context_options;
    context_options.runtime.elide_corrections = true;  // as for a user of spyre::Context
    if (options.cores != 0) context_options.card.emplace().cores = options.cores;
    const auto context = svp::Context::open(std::move(context_options));
    run.device = context->device_name();
    run.cores = context->device().config().cores;
    progress.set("sending the weights");
    svp::Operations operations(*context);
    svp::models::Transformer model(*context, operations, config, weights);
    progress.set("generating");
    generate(model, reference, options.tokens, run);
    measure_parts(model, run);
  }
  if (options.json) {
    print_json(transformer_json(options, run));
  } else {
    print_transformer(options, run);
  }
  return run.passed() ? kOk : kNotAsWanted;
}

}  // namespace cli
