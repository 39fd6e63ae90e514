// SPDX-License-Identifier: Apache-2.0
// P7: the mission's matmul, [4096,1024] x [1024,1024] fp16 through a kernel compiled for [1024,1024], Launch to
// Synchronize.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <random>
#include <thread>

#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::int64_t kM = 4096;
constexpr std::int64_t kN = 1024;
constexpr std::int64_t kK = 1024;
constexpr std::int64_t kTile = 1024;

struct Problem {
  std::vector<std::uint16_t> a16, b16;  // fp16, what the card is given
  std::vector<float> a, b;              // the same values as the card sees them: rounded to DL16
  std::vector<float> golden;            // bit for bit what must come out
};

void make_operand(std::size_t count, std::mt19937_64& random, std::vector<std::uint16_t>& fp16,
                  std::vector<std::uint16_t>& dl16, std::vector<float>& values) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  fp16.resize(count);
  dl16.resize(count);
  values.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    fp16[i] = std::bit_cast<std::uint16_t>(static_cast<_Float16>(uniform(random)));
    dl16[i] = wire::dl16_from_fp16(fp16[i]);
    values[i] = std::bit_cast<float>(wire::fp32_bits_from_dl16(dl16[i]));
  }
}

Problem make_problem() {
  std::mt19937_64 random(20260307);
  Problem problem;
  std::vector<std::uint16_t> a, b;
  make_operand(kM * kK, random, problem.a16, a, problem.a);
  make_operand(kK * kN, random, problem.b16, b, problem.b);
  std::vector<std::uint16_t> c(kM * kN);
  svp::golden::matmul_dl16(a, b, c, kM, kN, kK);
  problem.golden.resize(c.size());
  std::transform(c.begin(), c.end(), problem.golden.begin(),
                 [](std::uint16_t bits) { return std::bit_cast<float>(wire::fp32_bits_from_dl16(bits)); });
  return problem;
}

class CardMatmul {
 public:
  CardMatmul(const Problem& problem, unsigned cores) : problem_(problem), result_(kM * kN) {
    using svp::DataType;
    using svp::HostShape;
    svp::ContextOptions options;
    options.card.emplace().cores = cores;
    context_ = svp::Context::open(std::move(options));
    tensors_ = {context_->to_device(
                    {HostShape::contiguous(DataType::Float16, {kM, kK}), std::as_bytes(std::span(problem.a16))}),
                context_->to_device(
                    {HostShape::contiguous(DataType::Float16, {kK, kN}), std::as_bytes(std::span(problem.b16))}),
                context_->empty(DataType::Float16, {kM, kN})};
    plan_.add(svp::Job(svp::CompiledKernel(context_->kernel("matmul"), {{"M", kTile}, {"K", kK}, {"N", kN}})));
    context_->load(plan_);
  }

  double launch() {
    auto stream = context_->default_stream();
    const auto start = Clock::now();
    svp::LaunchKernel(stream, plan_, tensors_);
    stream.Synchronize();
    return ns_since(start);
  }

  // Reads the result back, compares every element, and wipes it on the card, so that the next launch has to write it.
  void check() {
    context_->to_host(tensors_[2], {svp::HostShape::contiguous(svp::DataType::Float32, {kM, kN}),
                                    std::as_writable_bytes(std::span(result_))});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < result_.size(); ++i) {
      wrong += std::bit_cast<std::uint32_t>(result_[i]) != std::bit_cast<std::uint32_t>(problem_.golden[i]) ? 1 : 0;
    }
    require(wrong == 0, fmt::format("{} of {} elements differ from the golden model", wrong, result_.size()));
    auto& stream = context_->default_stream().flex_stream();
    stream.Launch(svp::Job::fill(tensors_[2].allocation_index(), tensors_[2].size_bytes(), ~std::uint64_t{0}), {});
    stream.Synchronize();
  }

 private:
  const Problem& problem_;
  std::unique_ptr<svp::Context> context_;
  std::array<svp::SpyreTensor, 3> tensors_;
  svp::ExecutionPlan plan_;
  std::vector<float> result_;
};

// The peer computes the same product: fp32 sums in another order, and the golden result has 9 fraction bits.
double time_peer(const BlasPeer& peer, const Problem& problem, std::vector<float>& c) {
  const auto start = Clock::now();
  peer.sgemm(problem.a, problem.b, c, kM, kN, kK);
  const double ns = ns_since(start);
  for (std::size_t i = 0; i < c.size(); i += 997) {
    require(std::fabs(c[i] - problem.golden[i]) <= std::ldexp(std::fabs(c[i]), -9) + 1e-3f,
            "OpenBLAS disagrees with the golden model");
  }
  return ns;
}

void measure_cores(Session& session, const Problem& problem, unsigned cores, Goal goal) {
  const BlasPeer* const blas = session.blas();
  Row row{.id = "P7",
          .what = fmt::format("fp16 matmul 4096x1024x1024, 4 tiles, {} core{}", cores, cores == 1 ? "" : "s"),
          .limit = "OpenBLAS sgemm, one thread",
          .goal = goal,
          .checked = "4194304 elements bit-equal to the golden model"};
  CardMatmul card(problem, cores);
  std::vector<float> c(problem.golden.size());
  card.launch();
  card.check();
  if (blas != nullptr) time_peer(*blas, problem, c);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    if (blas != nullptr) row.limits.push_back(time_peer(*blas, problem, c));
    row.ours.push_back(card.launch());
    card.check();
  }
  session.add(std::move(row));
}

}  // namespace

void measure_matmul(Session& session) {
  session.end_card();
  const Problem problem = make_problem();
  measure_cores(session, problem, 1, session.goal(at_most(3), at_most(12)));
  if (std::thread::hardware_concurrency() >= 2) {
    measure_cores(session, problem, 2, session.goal(at_most(2), at_most(7)));
  } else {
    session.report().note("P7 with two cores is not measured: this machine has one CPU");
  }
}

}  // namespace bench
