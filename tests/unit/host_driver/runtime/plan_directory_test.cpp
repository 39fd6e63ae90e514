// SPDX-License-Identifier: Apache-2.0
// Jobs to directories and back: what is kept, what this runtime refuses, word for word; the cache.
#include "host_driver/runtime/plan_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "host_driver/runtime/plan_cache.hpp"
#include "host_driver/spyrecode/directory.hpp"
#include "host_driver/spyrecode/hcm.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

namespace fs = std::filesystem;
using spyrecode::ComputeOnDevice;
using spyrecode::ComputeOnHost;
using spyrecode::DataTransfer;

CompiledKernel compiled(std::int64_t m = 64) { return {test::matmul_kernel(), {{"M", m}, {"N", 128}, {"K", 192}}}; }

ReadInit files_of(const spyrecode::PlanFiles& content) {
  return [&content](const spyrecode::InitTransfer& init) {
    for (const auto& file : content.binaries) {
      if (file.name == init.file) return file.bytes;
    }
    return std::vector<std::byte>();
  };
}

std::vector<Job> again(const spyrecode::PlanFiles& content) {
  return jobs_of(spyrecode::parse(spyrecode::to_json(content.code)), files_of(content));
}

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const InvalidPlan& error) {
    EXPECT_FALSE(error.info().next_step.empty());
    return error.info().message;
  }
  return "accepted";
}

// The correction tensor of a walk with made-up operands.
std::vector<std::byte> correction_of(const Job& job) {
  const auto* host = std::get_if<HostOperation>(&job.job_plan().steps()[0]);
  if (host == nullptr) return {};
  const auto& kernel = job.binary()->metadata();
  std::vector<ResolvedOperand> operands(kernel.operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i].address = {.region_id = i, .offset = 1000 * i};
    for (std::size_t axis = 0; axis < operands[i].stride.size(); ++axis)
      operands[i].stride[axis] = 128 * (10 * i + axis);
  }
  const HostOperationInput input{.metadata = job.program_correction_metadata(),
                                 .operands = operands,
                                 .dimensions = job.compiled_extents(),
                                 .regions = {},
                                 .tile = 0};
  std::vector<std::byte> tensor(job.program_correction_metadata().max_bytes);
  tensor.resize(host->function(input, tensor));
  return tensor;
}

void expect_same(const Job& a, const Job& b) {
  EXPECT_EQ(a.binary()->metadata_text(), b.binary()->metadata_text());
  EXPECT_TRUE(std::ranges::equal(a.binary()->image(), b.binary()->image()));
  EXPECT_TRUE(std::ranges::equal(a.compiled_extents(), b.compiled_extents()));
  EXPECT_EQ(a.job_plan().compute()->expected_input_shapes, b.job_plan().compute()->expected_input_shapes);
  EXPECT_EQ(a.job_plan().compute()->core_mask, b.job_plan().compute()->core_mask);
  EXPECT_EQ(a.job_plan().compute()->budget_slices, b.job_plan().compute()->budget_slices);
  EXPECT_EQ(a.job_plan().steps().size(), b.job_plan().steps().size());
  EXPECT_EQ(correction_of(a), correction_of(b));
}

TEST(PlanDirectory, SymbolicArgumentsAreDescribedAndComeBack) {
  const Job job(compiled());
  const spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  ASSERT_EQ(content.code.exec.size(), 3u);
  const auto& host = std::get<ComputeOnHost>(content.code.exec[0]);
  EXPECT_EQ(host.size, 512u);
  EXPECT_EQ(spyrecode::address_count(host), 3u);
  EXPECT_EQ(spyrecode::parse_hcm(host.hcm, "hcm").symbols.size(), 9u);
  EXPECT_EQ(std::get<DataTransfer>(content.code.exec[1]).dev_ptr, spyrecode::kProgramBase);
  const auto jobs = again(content);
  ASSERT_EQ(jobs.size(), 1u);
  expect_same(jobs[0], job);
  EXPECT_NE(std::get<HostOperation>(jobs[0].job_plan().steps()[0]).function.target<DirectoryCorrection>(), nullptr);
}

TEST(PlanDirectory, WithoutSymbolicArgumentsTheRuntimeGivesTheAddresses) {
  const Job job(compiled());
  const spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::Off);
  ASSERT_EQ(content.code.exec.size(), 1u);
  const auto jobs = again(content);
  ASSERT_EQ(jobs.size(), 1u);
  expect_same(jobs[0], job);
  EXPECT_EQ(std::get<HostOperation>(jobs[0].job_plan().steps()[0]).function.target<DirectoryCorrection>(), nullptr);
}

TEST(PlanDirectory, CoresAndBudgetAreKept) {
  const CompiledKernel kernel = compiled();
  const Job job(
      kernel.kernel(), ProgramCorrectionMetadata::of(*kernel.kernel()),
      JobPlan({HostOperation{}, CorrectionDMA{},
               DeviceCompute{.expected_input_shapes = {kernel.operand_shapes().begin(), kernel.operand_shapes().end()},
                             .core_mask = 3,
                             .budget_slices = 40}}));
  for (const auto arguments : {SymbolicArguments::On, SymbolicArguments::Off}) {
    const auto jobs = again(content_of(std::span(&job, 1), arguments));
    ASSERT_EQ(jobs.size(), 1u);
    expect_same(jobs[0], job);
  }
}

// Takes `arguments` sticks and does nothing.
std::shared_ptr<const DeviceProgram> program_of(unsigned arguments, const char* name = "nothing") {
  test::ProgramBuilder builder;
  for (unsigned i = 0; i < arguments; ++i) builder.add_argument(128, wire::program::Access::ReadWrite);
  builder.pool_bytes = 256;
  return std::make_shared<const DeviceProgram>(name, builder.build());
}

TEST(PlanDirectory, ADeviceProgramComesBackWithItsOptions) {
  const Job job(program_of(3), nullptr, {.core_mask = 3, .budget_slices = 40});
  for (const auto arguments : {SymbolicArguments::On, SymbolicArguments::Off}) {
    const auto jobs = again(content_of(std::span(&job, 1), arguments));
    ASSERT_EQ(jobs.size(), 1u);
    EXPECT_EQ(jobs[0].device_program()->name(), "nothing");
    EXPECT_TRUE(std::ranges::equal(jobs[0].device_program()->bytes(), job.device_program()->bytes()));
    EXPECT_TRUE(jobs[0].needs_engine());
    expect_same(jobs[0], job);
  }
}

TEST(PlanDirectory, ADeviceProgramIsDescribedByTheAddressesOfItsArguments) {
  const Job job(program_of(3));
  const spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  const auto& host = std::get<ComputeOnHost>(content.code.exec[0]);
  EXPECT_EQ(host.size, wire::correction_bytes(3));
  const auto hcm = spyrecode::parse_hcm(host.hcm, "hcm");
  EXPECT_EQ(hcm.inputs, (std::vector<std::uint32_t>{0, 1, 2}));
  ASSERT_EQ(hcm.symbols.size(), 3u);
  EXPECT_EQ(hcm.symbols[2], (spyrecode::HcmSymbol{wire::SymbolKind::Address, 2, 0}));
}

TEST(PlanDirectory, ProgramsAndKernelsStandInOneDirectory) {
  const std::vector<Job> plan{Job(program_of(3)), Job(compiled()), Job(program_of(3)), Job(program_of(2))};
  const spyrecode::PlanFiles content = content_of(plan, SymbolicArguments::Off);
  EXPECT_EQ(content.binaries.size(), 3u) << "two are equal";
  const auto jobs = again(content);
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[0].device_program(), jobs[2].device_program());
  EXPECT_EQ(jobs[1].device_program(), nullptr);
  EXPECT_EQ(message_of([&] { (void)content_of(plan, SymbolicArguments::On); }),
            "job[1] takes another correction tensor than job[0], and a directory has one");
}

TEST(PlanDirectory, WhatADirectorySaysOfAProgramIsChecked) {
  const Job job(program_of(2));
  const spyrecode::PlanFiles good = content_of(std::span(&job, 1), SymbolicArguments::On);
  spyrecode::PlanFiles content = good;
  auto& host = std::get<ComputeOnHost>(content.code.exec[0]);
  auto hcm = spyrecode::parse_hcm(host.hcm, "hcm");
  std::swap(hcm.symbols[0], hcm.symbols[1]);
  host.hcm = spyrecode::to_json(hcm);
  EXPECT_EQ(message_of([&] { (void)again(content); }),
            "JobExecPlan[0] does not make the addresses of tensors 0 to 2 (that one excluded), which device program "
            "nothing takes");
  content = good;
  auto bytes = job.device_program()->bytes();
  std::vector<std::byte> wrong(bytes.begin(), bytes.end());
  wrong[offsetof(wire::program::Header, version)] = std::byte{9};
  content.binaries[0].bytes = spyrecode::write_program_binary({.program = wrong, .name = "wrong"});
  EXPECT_THAT(message_of([&] { (void)again(content); }),
              testing::HasSubstr("device program wrong is refused: header: version"));
}

TEST(PlanDirectory, SeveralComputationsShareOneKernelAndOneCorrection) {
  const std::vector<Job> plan{Job(compiled(64)), Job(compiled(128)), Job(compiled(64))};
  const spyrecode::PlanFiles content = content_of(plan, SymbolicArguments::On);
  EXPECT_EQ(content.binaries.size(), 2u) << "the first and the last are equal";
  EXPECT_EQ(content.code.exec.size(), 5u);
  const auto jobs = again(content);
  ASSERT_EQ(jobs.size(), 3u);
  for (std::size_t i = 0; i < jobs.size(); ++i) expect_same(jobs[i], plan[i]);
  EXPECT_EQ(jobs[0].binary(), jobs[1].binary());
  EXPECT_EQ(jobs[0].binary(), jobs[2].binary());
}

TEST(PlanDirectory, AJobOfADirectoryCanBeWrittenAgain) {
  const Job job(compiled());
  const spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  const auto jobs = again(content);
  EXPECT_EQ(spyrecode::to_json(content_of(jobs, SymbolicArguments::On).code), spyrecode::to_json(content.code));
}

TEST(PlanDirectory, AKernelOfAnyNameIsWritten) {
  auto image = test::make_image();
  std::string metadata = test::matmul_metadata(image);
  const std::string name = "\"name\": \"matmul\"";
  metadata.replace(metadata.find(name), name.size(), "\"name\": \"../\\u001b[1m" + std::string(1000, 'x') + "\"");
  const CompiledKernel kernel(Kernel::from_memory(std::move(image), metadata), {{"M", 64}, {"N", 64}, {"K", 64}});
  const Job job(kernel);
  const spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  EXPECT_EQ(content.binaries[0].name.find_first_not_of("_xm-.0123456789abcdefbin"), std::string::npos);
  ASSERT_EQ(again(content).size(), 1u);
}

TEST(PlanDirectory, SizesAreTakenAsTheyAreWritten) {
  const Job job(compiled());
  spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  std::get<ComputeOnHost>(content.code.exec[0]).size = 1024;
  const Job larger = jobs_of(content.code, files_of(content)).at(0);
  EXPECT_EQ(larger.program_correction_metadata().max_bytes, 1024u) << "the buffer of the ComputeOnHost";
  EXPECT_EQ(correction_of(larger).size(), 512u) << "the bytes of the DataTransfer";
  EXPECT_EQ(correction_of(larger), correction_of(job));
}

TEST(PlanDirectory, ComputationsInFrontOfAHostComputationGetTheirAddressesFromTheRuntime) {
  const Job job(compiled());
  spyrecode::PlanFiles content = content_of(std::span(&job, 1), SymbolicArguments::On);
  content.code.exec.insert(content.code.exec.begin(), content.code.exec[2]);
  const auto jobs = again(content);
  ASSERT_EQ(jobs.size(), 2u);
  const auto is_described = [](const Job& each) {
    return std::get<HostOperation>(each.job_plan().steps()[0]).function.target<DirectoryCorrection>() != nullptr;
  };
  EXPECT_FALSE(is_described(jobs[0]));
  EXPECT_TRUE(is_described(jobs[1]));
}

TEST(PlanDirectory, WhatNoFileCanHoldIsNotWritten) {
  const auto written = [](const std::vector<Job>& jobs, SymbolicArguments arguments = SymbolicArguments::On) {
    return message_of([&] { (void)content_of(jobs, arguments); });
  };
  EXPECT_EQ(written({}), "jobs are none");
  EXPECT_EQ(written({Job(compiled()), Job::fill(AllocationIndex{1}, 128, 0)}),
            "job[1] is a transfer, whose memory belongs to this process");
  const CompiledKernel kernel = compiled();
  const auto job_with = [&](std::vector<Step> steps) {
    const auto correction = ProgramCorrectionMetadata::of(*kernel.kernel());
    return Job(kernel.kernel(), correction, JobPlan(std::move(steps)));
  };
  const DeviceCompute compute{{kernel.operand_shapes().begin(), kernel.operand_shapes().end()}};
  EXPECT_EQ(written({job_with({Fill{.allocation_index = AllocationIndex{1}, .size = 128}, HostOperation{},
                               CorrectionDMA{}, compute})}),
            "job[0] has a transfer or a fill, whose memory belongs to this process");
  const HostOperation own{[](const HostOperationInput&, std::span<std::byte>) -> std::size_t { return 0; }};
  EXPECT_EQ(written({job_with({own, CorrectionDMA{}, compute})}),
            "job[0] has a host function of the program, which no file can hold");
  ProgramCorrectionMetadata other = ProgramCorrectionMetadata::of(*kernel.kernel());
  std::swap(other.symbols[0], other.symbols[1]);
  EXPECT_EQ(written({Job(kernel.kernel(), other, JobPlan::standard(kernel))}),
            "job[0] has other symbols than its kernel");
}

// ---- what the runtime refuses of a directory ------------------------------------------------------------------------

class Refused : public testing::Test {
 protected:
  Refused() {
    const Job job(compiled());
    content = content_of(std::span(&job, 1), SymbolicArguments::On);
  }
  ComputeOnHost& host() { return std::get<ComputeOnHost>(content.code.exec[0]); }
  DataTransfer& transfer() { return std::get<DataTransfer>(content.code.exec[1]); }
  ComputeOnDevice& compute() { return std::get<ComputeOnDevice>(content.code.exec[2]); }
  void change_hcm(const std::function<void(spyrecode::Hcm&)>& change) {
    spyrecode::Hcm hcm = spyrecode::parse_hcm(host().hcm, "hcm");
    change(hcm);
    host().hcm = spyrecode::to_json(hcm);
  }
  std::string message() {
    return message_of([&] { (void)jobs_of(content.code, files_of(content)); });
  }

  spyrecode::PlanFiles content;
};

TEST_F(Refused, AHostComputationOfAnotherBuffer) {
  host().ihandle = "other";
  EXPECT_EQ(message(),
            "JobExecPlan[0] reads the buffer 'other': a host computation of this runtime reads the addresses of the "
            "launch's tensors only");
}

TEST_F(Refused, ATransferBackToTheHost) {
  content.code.exec.emplace_back(DataTransfer{.direction = spyrecode::TransferDirection::FromDevice,
                                              .host_handle = "result",
                                              .dev_ptr = spyrecode::kProgramBase,
                                              .size = 128});
  EXPECT_EQ(message(),
            "JobExecPlan[3] moves bytes from the device: a plan of this runtime brings nothing back to the host");
}

TEST_F(Refused, ATransferThatCorrectsNothing) {
  content.code.exec.push_back(content.code.exec[1]);
  EXPECT_EQ(message(),
            "JobExecPlan[3] moves a buffer that is not the one of a ComputeOnHost directly in front of it: a plan of "
            "this runtime corrects the computation behind it, and moves no other bytes");
}

TEST_F(Refused, AHostComputationWithoutItsTransfer) {
  content.code.exec.erase(content.code.exec.begin() + 1);
  EXPECT_EQ(message(), "JobExecPlan[0] is not followed directly by the DataTransfer of its buffer");
}

TEST_F(Refused, AHostComputationThatNothingUses) {
  content.code.exec.push_back(content.code.exec[0]);
  content.code.exec.push_back(content.code.exec[1]);
  EXPECT_EQ(message(), "JobExecPlan[3] makes a buffer that no ComputeOnDevice behind it uses");
  content.code.exec.pop_back();
  EXPECT_EQ(message(), "JobExecPlan[3] is not followed directly by the DataTransfer of its buffer");
  content.code.exec.pop_back();
  content.code.exec.insert(content.code.exec.begin() + 2, content.code.exec[0]);
  EXPECT_EQ(message(), "JobExecPlan[0] makes a buffer that no ComputeOnDevice behind it uses");
}

TEST_F(Refused, SizesThatTheKernelDoesNotTake) {
  host().size = 32768;
  EXPECT_EQ(message(), "JobExecPlan[0] makes 32768 bytes, and a correction tensor has at most 16384");
  host().size = 1024;
  transfer().size = 1024;
  EXPECT_EQ(message(), "JobExecPlan[0] and its DataTransfer bring 1024 bytes, and kernel matmul takes at most 512");
  transfer().size = 128;
  EXPECT_EQ(message(), "JobExecPlan[0] and its DataTransfer bring 128 bytes, and kernel matmul reads 512");
}

TEST_F(Refused, ADescriptionOfAnotherKernel) {
  const auto saved = content;
  host().ishape = {2};
  EXPECT_EQ(message(), "JobExecPlan[0] has an ishape of 2 addresses, and its hcm reads 3");
  content = saved;
  change_hcm([](auto& hcm) { hcm.symbols.pop_back(); });
  EXPECT_EQ(message(), "JobExecPlan[0] makes 8 symbols, and kernel matmul takes 9");
  content = saved;
  change_hcm([](auto& hcm) { hcm.inputs[2] = 3; });
  EXPECT_EQ(message(), "JobExecPlan[0] reads tensor 3, and kernel matmul has 3 operands");
  content = saved;
  change_hcm([](auto& hcm) { hcm.symbols[3].axis = 2; });
  EXPECT_EQ(message(), "JobExecPlan[0] names axis 2 of operand a, which has 2");
  content = saved;
  change_hcm([](auto& hcm) { std::swap(hcm.symbols[0], hcm.symbols[1]); });
  EXPECT_EQ(message(), "JobExecPlan[0] makes symbol 0 the address of b, and kernel matmul takes the address of a");
  content = saved;
  change_hcm([](auto& hcm) { hcm.symbols[8].axis = 0; });
  EXPECT_EQ(message(),
            "JobExecPlan[0] makes symbol 8 the dimension of a.M, and kernel matmul takes the dimension of a.K");
  content = saved;
  change_hcm([](auto& hcm) { std::swap(hcm.inputs[0], hcm.inputs[1]); });
  EXPECT_EQ(message(), "JobExecPlan[0] makes symbol 0 the address of b, and kernel matmul takes the address of a");
}

TEST_F(Refused, ADescriptionOfTheOriginal) {
  host().hcm = R"({"vdci":{"inputSym":["0","1","2"]},"senConstants":[]})";
  EXPECT_EQ(message(), "spyrecode.json: JobExecPlan[0].properties.hcm.format is missing");
}

TEST_F(Refused, BytesThatNobodyRuns) {
  content.binaries.push_back({"more.bin", std::vector<std::byte>(128)});
  content.code.init.push_back(
      {.file = "more.bin", .dev_ptr = spyrecode::kProgramBase + content.code.allocate_bytes, .size = 128});
  EXPECT_EQ(message(),
            "JobPreparationPlan[2] brings more.bin, which no ComputeOnDevice runs: this runtime loads binaries only");
  content.code.init.back().size = 64 * wire::kMiB;
  EXPECT_EQ(message().substr(0, 26), "JobPreparationPlan brings ");
}

TEST_F(Refused, ABinaryWhoseImageIsDamaged) {
  const CompiledKernel kernel = compiled();
  std::vector<std::byte> image(kernel.kernel()->image().begin(), kernel.kernel()->image().end());
  image[200] ^= std::byte{1};
  spyrecode::BinaryCommand command{};
  command.code = spyrecode::CommandCode::Compute;
  command.extent_count = 3;
  std::fill_n(command.extents, 3, 64);
  const std::string name = content.code.init[0].file;
  const auto use = [&](std::vector<std::byte> bytes) {
    content.code.init[0].size = bytes.size();
    content.binaries[0].bytes = std::move(bytes);
    return message();
  };
  EXPECT_EQ(use(spyrecode::write_binary(image, kernel.kernel()->metadata_text(), command)),
            name + ": kernel image: checksum mismatch");
  EXPECT_EQ(use(spyrecode::write_binary(kernel.kernel()->image(), "{}", command)),
            name + ": kernel metadata: format is missing");
  command.extent_count = 2;
  command.extents[2] = 0;
  EXPECT_EQ(use(spyrecode::write_binary(kernel.kernel()->image(), kernel.kernel()->metadata_text(), command)),
            name + ": kernel matmul has 3 dimensions, the command list gives 2 extents");
}

TEST_F(Refused, APointerIntoTheMiddleOfABinary) {
  compute().job_bin_ptr += 128;
  EXPECT_EQ(message(), content.code.init[0].file +
                           " at byte 128: is no binary of this card: it does not begin with "
                           "SPYRBIN1");
}

TEST_F(Refused, NothingThatIsWritten) { EXPECT_EQ(message(), "accepted"); }

// A file may hold several binaries, and bytes behind them.
TEST_F(Refused, NoPointerToASecondBinaryOfAFile) {
  auto& bytes = content.binaries[0].bytes;
  const std::vector<std::byte> first = bytes;
  bytes.insert(bytes.end(), first.begin(), first.end());
  bytes.resize(bytes.size() + 256);
  content.code.init[0].size = bytes.size();
  compute().job_bin_ptr += first.size();
  EXPECT_EQ(message(), "accepted");
}

// ---- on disk --------------------------------------------------------------------------------------------------------

class PlanFiles : public testing::Test {
 protected:
  fs::path path(const char* name) const { return folder.path() / name; }
  qemu::test::TemporaryFolder folder;
};

TEST_F(PlanFiles, APlanIsWrittenAndRead) {
  const ExecutionPlan plan({Job(compiled(64)), Job(compiled(128))});
  for (const auto arguments : {SymbolicArguments::On, SymbolicArguments::Off}) {
    plan.write_directory(path("plan"), arguments);
    const ExecutionPlan read = ExecutionPlan::from_directory(path("plan"));
    ASSERT_EQ(read.jobs().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) expect_same(read.jobs()[i], plan.jobs()[i]);
    EXPECT_FALSE(read.loaded());
  }
}

TEST_F(PlanFiles, ADirectoryIsReadOnceUntilItChanges) {
  PlanCache cache;
  const auto job_of = [&] { return cache.jobs(path("plan")).at(0); };
  ExecutionPlan({Job(compiled(64))}).write_directory(path("plan"));
  const Job first = job_of();
  fs::create_directory_symlink("plan", path("link"));
  EXPECT_EQ(cache.jobs(path("link")).at(0).binary(), first.binary()) << "another path of the same directory";
  EXPECT_EQ(job_of().binary(), first.binary());
  EXPECT_EQ(cache.statistics().read, 1u);
  EXPECT_EQ(cache.statistics().known, 2u);

  ExecutionPlan({Job(compiled(128))}).write_directory(path("plan"));
  EXPECT_EQ(job_of().compiled_extents()[0], 128);
  EXPECT_EQ(cache.statistics().read, 2u);
  EXPECT_EQ(cache.statistics().kept, 1u);
}

TEST_F(PlanFiles, AChangedBinaryIsReadAgainAndRefused) {
  PlanCache cache;
  ExecutionPlan({Job(compiled(64))}).write_directory(path("plan"));
  (void)cache.jobs(path("plan"));
  fs::path binary;
  for (const auto& entry : fs::directory_iterator(path("plan"))) {
    if (entry.path().extension() == ".bin") binary = entry.path();
  }
  // In place, with the same size and the same time of content: only the inode tells.
  const auto time = fs::last_write_time(binary);
  {
    std::fstream file(binary, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(500);
    file.put('x');
  }
  fs::last_write_time(binary, time);
  EXPECT_EQ(message_of([&] { (void)cache.jobs(path("plan")); }),
            binary.filename().string() + ": has another checksum than it says");
  fs::remove(binary);
  EXPECT_EQ(message_of([&] { (void)cache.jobs(path("plan")); }),
            "there is no file " + binary.filename().string() + " in " + fs::canonical(path("plan")).string());
  EXPECT_EQ(cache.statistics().kept, 0u) << "nothing is kept of a directory that is refused";
}

TEST_F(PlanFiles, TheCacheIsBounded) {
  PlanCache cache;
  for (std::size_t i = 0; i < PlanCache::kMostDirectories + 1; ++i) {
    const fs::path directory = folder.path() / std::to_string(i);
    ExecutionPlan({Job(compiled(64))}).write_directory(directory);
    (void)cache.jobs(directory);
  }
  EXPECT_EQ(cache.statistics().kept, PlanCache::kMostDirectories);
  (void)cache.jobs(folder.path() / "0");
  EXPECT_EQ(cache.statistics().known, 0u) << "the oldest went first";
  (void)cache.jobs(folder.path() / "64");
  EXPECT_EQ(cache.statistics().known, 1u);
}

TEST_F(PlanFiles, AJobIsMadeOfABinaryPath) {
  ExecutionPlan({Job(compiled(64))}).write_directory(path("plan"), SymbolicArguments::Off);
  fs::path binary;
  for (const auto& entry : fs::directory_iterator(path("plan"))) {
    if (entry.path().extension() == ".bin") binary = entry.path();
  }
  const Job job(binary);
  expect_same(job, Job(compiled(64)));
  // As the RFC spells it: with metadata and a plan of the program's own.
  const CompiledKernel kernel = compiled(256);
  expect_same(Job(binary, ProgramCorrectionMetadata::of(*kernel.kernel()), JobPlan::standard(kernel)), Job(kernel));
}

TEST_F(PlanFiles, AJobIsMadeOfAKernelImageWithItsMetadata) {
  const CompiledKernel kernel = compiled(64);
  const auto image = kernel.kernel()->image();
  std::ofstream(path("matmul.img"), std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  const auto correction = ProgramCorrectionMetadata::of(*kernel.kernel());
  const auto make = [&] { return Job(path("matmul.img"), correction, JobPlan::standard(kernel)); };
  EXPECT_EQ(message_of(make), "can not open " + path("matmul.json").string() + ": No such file or directory");
  std::ofstream(path("matmul.json")) << kernel.kernel()->metadata_text();
  expect_same(make(), Job(kernel));
  EXPECT_EQ(message_of([&] { Job job(path("matmul.img")); }),
            path("matmul.img").string() + ": is a kernel image, which has no shapes");
}

TEST_F(PlanFiles, JobsAreRemovedByTheirIndex) {
  ExecutionPlan plan({Job(compiled(64)), Job(compiled(128)), Job(compiled(256))});
  plan.remove(1);
  ASSERT_EQ(plan.jobs().size(), 2u);
  EXPECT_EQ(plan.jobs()[1].compiled_extents()[0], 256);
  EXPECT_THROW(plan.remove(2), InvalidArgument);
}

}  // namespace
}  // namespace svp
