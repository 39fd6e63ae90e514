// SPDX-License-Identifier: Apache-2.0
// Plans on disk: a spyrecode.json (its length stands in front, 16 bits) and one file, which every name means. Refused
// by InvalidPlan that names a field, or jobs that hold what docs/spyrecode.md says of them and can be written again.
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/plan_directory.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"
#include "shared/crc32c.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using fuzz::require;
using svp::spyrecode::SpyreCode;

// Of the device program in a binary.
void repair_program(std::span<std::byte> file) {
  if (!svp::spyrecode::is_program_binary(file)) return;
  svp::spyrecode::ProgramBinaryHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  if (!wire::range_inside(header.program_offset, header.program_bytes, file.size())) return;
  const auto program = file.subspan(header.program_offset, header.program_bytes);
  if (program.size() >= sizeof(wire::program::Header)) svp::test::seal(program);
}

// A binary gets the checksum that it needs, so that what stands behind the check is reached.
std::vector<std::byte> repaired(std::span<const std::byte> bytes) {
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  svp::spyrecode::BinaryHeader header;
  if (file.size() < sizeof header) return file;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.bytes < sizeof header || header.bytes > file.size()) return file;
  repair_program(file);
  header.crc32c = 0;
  std::memcpy(file.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, file.data(), header.bytes);
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

void expect_bounded(const SpyreCode& code) {
  require(code.allocate_bytes != 0 && code.allocate_bytes <= svp::spyrecode::kSegmentBytes, "an allocation is bounded");
  const auto inside = [&](std::uint64_t address, std::uint64_t bytes) {
    return address >= svp::spyrecode::kProgramBase && address % svp::spyrecode::kAddressAlignment == 0 &&
           bytes <= code.allocate_bytes && address - svp::spyrecode::kProgramBase <= code.allocate_bytes - bytes;
  };
  for (const auto& init : code.init) require(inside(init.dev_ptr, init.size), "an InitTransfer lies in the allocation");
  for (const auto& step : code.exec) {
    if (const auto* transfer = std::get_if<svp::spyrecode::DataTransfer>(&step)) {
      require(inside(transfer->dev_ptr, transfer->size), "a DataTransfer lies in the allocation");
    } else if (const auto* compute = std::get_if<svp::spyrecode::ComputeOnDevice>(&step)) {
      require(inside(compute->job_bin_ptr, 1), "a binary lies in the allocation");
    }
  }
  require(
      svp::spyrecode::to_json(svp::spyrecode::parse(svp::spyrecode::to_json(code))) == svp::spyrecode::to_json(code),
      "what is written is read as the same");
}

std::vector<std::byte> correction_of(const svp::Job& job) {
  const auto* host = std::get_if<svp::HostOperation>(&job.job_plan().steps().front());
  if (host == nullptr) return {};
  std::vector<svp::ResolvedOperand> operands(job.binary()->metadata().operands.size());
  std::vector<std::byte> tensor(job.program_correction_metadata().max_bytes);
  const std::size_t bytes = host->function({.metadata = job.program_correction_metadata(),
                                            .operands = operands,
                                            .dimensions = job.compiled_extents(),
                                            .regions = {},
                                            .tile = 0},
                                           tensor);
  require(bytes != 0 && bytes <= tensor.size(), "a correction tensor fits its buffer");
  require(bytes <= job.binary()->max_correction_bytes(), "and the kernel");
  tensor.resize(bytes);
  return tensor;
}

void expect_usable(const SpyreCode& code, const std::vector<svp::Job>& jobs) {
  std::size_t computations = 0;
  for (const auto& step : code.exec)
    computations += std::holds_alternative<svp::spyrecode::ComputeOnDevice>(step) ? 1 : 0;
  require(jobs.size() == computations, "a job per ComputeOnDevice");
  const svp::spyrecode::PlanFiles content = svp::content_of(jobs, svp::SymbolicArguments::Off);
  const auto again = svp::jobs_of(content.code, [&](const svp::spyrecode::InitTransfer& init) {
    for (const auto& file : content.binaries) {
      if (file.name == init.file) return file.bytes;
    }
    return std::vector<std::byte>();
  });
  require(again.size() == jobs.size(), "jobs of a directory can be written again");
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto one = correction_of(jobs[i]), other = correction_of(again[i]);
    require(other.size() <= one.size() && std::equal(other.begin(), other.end(), one.begin()),
            "symbolic arguments on and off make the same correction");
    const auto &program = jobs[i].device_program(), &same = again[i].device_program();
    require((program == nullptr) == (same == nullptr), "a binary stays of its kind");
    require(program == nullptr || std::ranges::equal(program->bytes(), same->bytes()), "and the program is the same");
  }
}

}  // namespace

void fuzz::run(Input input) {
  const auto length = input.take<std::uint16_t>();
  const auto text = input.bytes(length);
  const std::vector<std::byte> file = repaired(input.rest());
  try {
    const SpyreCode code = svp::spyrecode::parse({reinterpret_cast<const char*>(text.data()), text.size()});
    expect_bounded(code);
    const auto jobs = svp::jobs_of(code, [&](const svp::spyrecode::InitTransfer& init) {
      return std::vector<std::byte>(
          file.begin(), file.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(init.size, file.size())));
    });
    expect_usable(code, jobs);
  } catch (const svp::InvalidPlan& error) {
    require(!error.field().empty() && error.what()[0] != 0, "a refusal names the field and says why");
  }
}
