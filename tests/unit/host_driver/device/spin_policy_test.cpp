// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/spin_policy.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "host_driver/device/usable_cpus.hpp"

namespace svp {
namespace {

namespace fs = std::filesystem;

class CpuQuota : public testing::Test {
 protected:
  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<double> quota() { return cpu_quota((root_ / "cgroup").string(), (root_ / "sys").string()); }
  void TearDown() override { fs::remove_all(root_); }

  const fs::path root_ = fs::path(testing::TempDir()) / ("cpu_quota_" + std::to_string(::getpid()));
};

TEST_F(CpuQuota, NoFileIsNoLimit) { EXPECT_FALSE(quota()); }

TEST_F(CpuQuota, TheSmallestOfTheGroupAndThoseAboveItCounts) {
  write("cgroup", "0::/user/job\n");
  write("sys/user/job/cpu.max", "max 100000\n");
  EXPECT_FALSE(quota());
  write("sys/user/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
  write("sys/user/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuota, OfAContainerTheTopOfTheMountCounts) {
  write("cgroup", "0::/a/path/of/the/host\n");
  write("sys/cpu.max", "200000 100000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CpuQuota, TheFirstVersionCountsToo) {
  write("cgroup", "7:cpuset:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/x\n");
  write("sys/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "-1\n");
  write("sys/cpu,cpuacct/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(quota());
  write("sys/cpu,cpuacct/docker/1/cpu.cfs_quota_us", "300000\n");
  EXPECT_EQ(quota(), 3.0);
}

TEST_F(CpuQuota, NonsenseIsNoLimit) {
  write("cgroup", "nonsense\n0::\n");
  write("sys/cpu.max", "lots of\n");
  EXPECT_FALSE(quota());
}

TEST(SpinPolicy, AThreadThatRestrictsItselfDoesNotStopTheOthersFromSpinning) {
  if (usable_cpus() < 2) GTEST_SKIP() << "one CPU: nobody spins";
  std::thread restricted([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    cpu_set_t mine;
    ASSERT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    SpinPolicy first(Timeouts{}, false);
    const SpinPolicy::Permit permit(first);
    (void)permit;
  });
  restricted.join();  // bounded: it does not wait
  SpinPolicy policy(Timeouts{}, false);
  const SpinPolicy::Permit permit(policy);
  EXPECT_GT(permit.budget().count(), 0);
}

}  // namespace
}  // namespace svp
