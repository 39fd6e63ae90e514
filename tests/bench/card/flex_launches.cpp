// SPDX-License-Identifier: Apache-2.0
// P14, launches: createComputeParams, launchOperationCompute and destroyComputeParams against FlexStream::Launch of the
// same kernel on the same card, in CPU time of the calling thread (as P1); and how long a context takes until its first
// copy has ended.

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "tests/bench/card/add_job.hpp"
#include "tests/bench/card/flex_device.hpp"
#include "tests/bench/card/placement.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/support/flex/launches.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace bench {

namespace {

constexpr std::int64_t kRows = 16;  // the kernel is over at once
constexpr unsigned kLaunches = wire::kStreamCredits / 2;
constexpr unsigned kRepetitions = 200;
constexpr std::size_t kFirstCopy = 64 * wire::kKiB;

double thread_cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// CPU time of one launch, the median of means over a row of them.
double cost(Session& session, const auto& launch, const auto& synchronize) {
  std::vector<double> samples(session.amount(kRepetitions));
  for (double& sample : samples) {
    const double start = thread_cpu_ns();
    for (unsigned i = 0; i < kLaunches; ++i) launch();
    sample = (thread_cpu_ns() - start) / kLaunches;
    synchronize();
  }
  return median(std::move(samples));
}

// The plan of a job in a folder, removed at the end.
class PlanFolder {
 public:
  explicit PlanFolder(const svp::Job& job) {
    std::string pattern = (std::filesystem::temp_directory_path() / "spyre-bench-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "no folder for a plan");
    path_ = pattern;
    svp::ExecutionPlan({job}).write_directory(path_, svp::SymbolicArguments::On);
  }
  ~PlanFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PlanFolder(const PlanFolder&) = delete;
  PlanFolder& operator=(const PlanFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// 1 + 2 by libflex.
class FlexAdd {
 public:
  explicit FlexAdd(const std::filesystem::path& plan) {
    flex::initializeRuntime(&runtime_, 0);
    stream_ = runtime_->getDefaultStream();
    for (auto& tensor : tensors_) {
      tensor = runtime_->getAllocator()->allocate(kBytes, flex_test::tensor_memory());
    }
    plan_.emplace(plan, *runtime_->getAllocator(), *stream_);
    stream_->fillAsync(&tensors_[0], 1, DataFormats::SEN169_FP16, true);
    stream_->fillAsync(&tensors_[1], 2, DataFormats::SEN169_FP16, true);
    stream_->synchronize();
  }
  void launch() {
    const auto& [offset, name] = plan_->computation();
    auto* const params =
        flex::createComputeParams(&plan_->program(), {&tensors_[0], &tensors_[1], &tensors_[2]}, name, offset);
    stream_->launchOperationCompute(params);
    flex::destroyComputeParams(params);
  }
  void synchronize() { stream_->synchronize(); }
  void check() {
    std::vector<std::uint16_t> result(kBytes / 2);
    flex_test::receive(*stream_, result.data(), kBytes, tensors_[2]);
    stream_->synchronize();
    const auto three = static_cast<std::uint16_t>(deeptools::FloatToFp16Bin(3));
    require(std::ranges::all_of(result, [&](std::uint16_t code) { return code == three; }), "1 + 2 is not 3");
    stream_->fillAsync(&tensors_[2], 0, DataFormats::SEN169_FP16, true);
    stream_->synchronize();
  }

 private:
  static constexpr std::size_t kBytes = kRows * AddJob::kColumns * 2;
  std::shared_ptr<flex::RuntimeContext> runtime_;
  flex::RuntimeStream* stream_ = nullptr;
  flex::CompositeAddress tensors_[3];
  std::optional<flex_test::PreparedPlan> plan_;
};

double flex_start(std::span<const std::byte> bytes) {
  const auto start = Clock::now();
  std::shared_ptr<flex::RuntimeContext> runtime;
  flex::initializeRuntime(&runtime, 0);
  const auto memory = runtime->getAllocator()->allocate(bytes.size(), flex_test::tensor_memory());
  flex_test::send(*runtime->getDefaultStream(), bytes.data(), bytes.size(), memory);
  runtime->getDefaultStream()->synchronize();
  const double ns = ns_since(start);
  std::vector<std::byte> back(bytes.size());
  flex_test::receive(*runtime->getDefaultStream(), back.data(), back.size(), memory);
  runtime->getDefaultStream()->synchronize();
  require(std::ranges::equal(back, bytes), "the first copy: other bytes came back");
  return ns;
}

double context_start(std::span<const std::byte> bytes) {
  const auto start = Clock::now();
  svp::ContextOptions options;
  options.card.emplace().virtual_functions = 0;
  options.card->sole_function = 0;
  const auto context = svp::Context::open(std::move(options));
  const auto memory = context->allocator().allocate(bytes.size());
  auto& stream = context->default_stream().flex_stream();
  stream.Launch(svp::Job::to_device(bytes.data(), memory->allocation_index(), bytes.size()), {});
  stream.Synchronize();
  return ns_since(start);
}

}  // namespace

void measure_flex_launches(Session& session) {
  share_with_flex(&session.card());
  AddJob ours(session.card(), kRows);
  const PlanFolder folder(ours.job());
  FlexAdd flex(folder.path());
  const Apart apart(session.card());
  auto& stream = session.card().default_stream().flex_stream();
  Row row{.id = "P14",
          .what = "libflex createComputeParams to launchOperationCompute, caller's CPU time",
          .limit = "FlexStream::Launch of the same kernel",
          .goal = at_most(1.15),
          .checked = "every element of both results"};
  const auto by_flex = [&] { return cost(session, [&] { flex.launch(); }, [&] { flex.synchronize(); }); };
  by_flex();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double flex_cost = by_flex();
    row.add(flex_cost,
            cost(session, [&] { stream.Launch(ours.job(), ours.arguments()); }, [&] { stream.Synchronize(); }));
    flex.check();
    ours.check();
    ours.wipe();
  }
  session.add(std::move(row));
}

void measure_flex_start(Session& session) {
  session.end_card();
  share_with_flex(nullptr);
  const std::vector<std::byte> bytes(kFirstCopy, std::byte{0x5A});
  Row row{.id = "P14",
          .what = "libflex initializeRuntime on a card of its own to the end of the first copy, 64.0 KiB",
          .limit = "Context::open to the same",
          .checked = "every byte"};
  (void)context_start(bytes);
  for (unsigned round = 0; round < session.options().rounds; ++round) row.add(flex_start(bytes), context_start(bytes));
  session.add(std::move(row));
}

}  // namespace bench
