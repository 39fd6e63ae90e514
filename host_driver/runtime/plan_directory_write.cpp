// SPDX-License-Identifier: Apache-2.0
// Jobs → the files of a directory.
#include <algorithm>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/plan_writer.hpp"
#include "host_driver/spyrecode/program_binary.hpp"

namespace svp {
namespace {

using spyrecode::Hcm;

constexpr const char* kKernelsOnly = "write jobs of compiled kernels";

[[noreturn]] void refuse_job(const std::string& field, const std::string& what, const char* next = kKernelsOnly) {
  throw InvalidPlan(field, field + " " + what, next);
}

// What a directory says of a job.
struct WrittenJob {
  const Job* job;
  const DeviceCompute* compute;
  std::uint64_t correction_bytes = 0;  // 0: it has no symbols
};

// How many bytes the host function makes; the runtime's own functions only.
std::uint64_t correction_bytes_of(const HostOperation& host, const Job& job, const std::string& name) {
  if (job.device_program() != nullptr) {
    return wire::correction_bytes(static_cast<std::uint32_t>(job.device_program()->arguments().size()));
  }
  using Function = std::size_t (*)(const HostOperationInput&, std::span<std::byte>);
  if (const auto* directory = host.function.target<DirectoryCorrection>()) return directory->transfer_bytes;
  const auto* function = host.function.target<Function>();
  if (function == nullptr || *function != &build_correction) {
    refuse_job(name, "has a host function of the program, which no file can hold");
  }
  return wire::correction_bytes(static_cast<std::uint32_t>(job.program_correction_metadata().symbols.size()));
}

WrittenJob written(const Job& job, std::size_t index) {
  const std::string name = "job[" + std::to_string(index) + "]";
  if (job.binary() == nullptr) refuse_job(name, "is a transfer, whose memory belongs to this process");
  WrittenJob result{.job = &job, .compute = job.job_plan().compute()};
  for (const Step& step : job.job_plan().steps()) {
    if (const auto* host = std::get_if<HostOperation>(&step)) {
      result.correction_bytes = correction_bytes_of(*host, job, name);
    } else if (!std::holds_alternative<CorrectionDMA>(step) && !std::holds_alternative<DeviceCompute>(step)) {
      refuse_job(name, "has a transfer or a fill, whose memory belongs to this process");
    }
  }
  if (job.device_program() != nullptr) return result;
  if (job.compiled_extents().size() > spyrecode::kCommandExtents) {
    refuse_job(name, "has " + std::to_string(job.compiled_extents().size()) +
                         " dimensions, and a command has room for " + std::to_string(spyrecode::kCommandExtents) +
                         " extents");
  }
  const auto& symbols = job.program_correction_metadata().symbols;
  if (result.correction_bytes != 0 && !std::ranges::equal(symbols, job.binary()->metadata().symbols, same_symbol)) {
    refuse_job(name, "has other symbols than its kernel");
  }
  return result;
}

Hcm hcm_of(const Job& job) {
  if (const auto& program = job.device_program(); program != nullptr) {
    return spyrecode::hcm_of_addresses(static_cast<std::uint32_t>(program->arguments().size()));
  }
  Hcm hcm;
  for (std::uint32_t i = 0; i < job.binary()->metadata().operands.size(); ++i) hcm.inputs.push_back(i);
  for (const KernelSymbol& symbol : job.program_correction_metadata().symbols) {
    hcm.symbols.push_back({symbol.kind, symbol.operand, spyrecode::has_axis(symbol.kind) ? symbol.axis : 0});
  }
  return hcm;
}

// One ComputeOnHost serves all of them.
void require_one_correction(std::span<const WrittenJob> jobs) {
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    if (jobs[i].correction_bytes == jobs[0].correction_bytes && hcm_of(*jobs[i].job) == hcm_of(*jobs[0].job)) continue;
    refuse_job("job[" + std::to_string(i) + "]", "takes another correction tensor than job[0], and a directory has one",
               "write it without symbolic arguments, or each job into a directory of its own");
  }
}

std::vector<std::byte> binary_of(const WrittenJob& written) {
  const Job& job = *written.job;
  if (job.device_program() != nullptr) {
    return spyrecode::write_program_binary({.program = job.device_program()->bytes(),
                                            .name = job.device_program()->name(),
                                            .core_mask = written.compute->core_mask,
                                            .budget_slices = written.compute->budget_slices});
  }
  spyrecode::BinaryCommand command{};
  command.code = spyrecode::CommandCode::Compute;
  command.extent_count = static_cast<std::uint32_t>(job.compiled_extents().size());
  command.core_mask = written.compute->core_mask;
  command.budget_slices = written.compute->budget_slices;
  std::ranges::copy(job.compiled_extents(), command.extents);
  return spyrecode::write_binary(job.binary()->image(), job.binary()->metadata_text(), command);
}

// A kernel's name may be anything; names of a directory stand on terminals and in file systems.
std::string plain_name(const Kernel& kernel) {
  constexpr std::size_t kMostBytes = 64;
  std::string name = kernel.name().substr(0, kMostBytes);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace

spyrecode::PlanFiles content_of(std::span<const Job> jobs, SymbolicArguments arguments) {
  if (jobs.empty()) refuse_job("jobs", "are none", "add a job first");
  if (jobs.size() > spyrecode::kMostSteps - 2) {
    refuse_job("jobs", "are " + std::to_string(jobs.size()) + ", more than a directory holds",
               "write several directories");
  }
  std::vector<WrittenJob> all;
  all.reserve(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) all.push_back(written(jobs[i], i));
  spyrecode::PlanWriter writer;
  if (arguments == SymbolicArguments::On) require_one_correction(all);
  if (const std::uint64_t bytes = all[0].correction_bytes; arguments == SymbolicArguments::On && bytes != 0) {
    writer.add_correction(hcm_of(jobs[0]), bytes);
  }
  for (const WrittenJob& each : all) {
    const std::string kernel = plain_name(*each.job->binary());
    writer.add_compute(kernel, kernel, binary_of(each));
  }
  return writer.take();
}

}  // namespace svp
