// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/tasks.hpp"
#include "tests/bounds.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace svp {
namespace {

class TasksTest : public testing::Test {
 protected:
  void SetUp() override { loop_ = *EventLoop::create(); }
  // As the broker does: from the loop's thread.
  void run(Tasks& tasks, Tasks::Work work) {
    loop_->post([&tasks, work = std::move(work)] { EXPECT_TRUE(tasks.run(work)); });
  }
  std::shared_ptr<EventLoop> loop_;
};

TEST_F(TasksTest, WorkRunsBesideTheLoopAndComesBackToIt) {
  Tasks tasks(*loop_);
  std::promise<bool> on_loop;
  std::atomic<bool> beside{false};
  run(tasks, [&]() -> EventLoop::Closure {
    beside = !loop_->on_loop_thread();
    return [&] { on_loop.set_value(loop_->on_loop_thread()); };
  });
  auto answer = on_loop.get_future();
  ASSERT_EQ(answer.wait_for(test_bounds::kThread), std::future_status::ready);
  EXPECT_TRUE(answer.get());  // bounded: it is ready, as just seen
  EXPECT_TRUE(beside);
}

TEST_F(TasksTest, NoneWaitsBehindAnother) {
  Tasks tasks(*loop_);
  std::promise<void> second_ran;
  auto second = second_ran.get_future().share();
  run(tasks, [second]() -> EventLoop::Closure {
    (void)second.wait_for(test_bounds::kThread);
    return {};
  });
  run(tasks, [&]() -> EventLoop::Closure {
    second_ran.set_value();
    return {};
  });
  EXPECT_EQ(second.wait_for(test_bounds::kThread), std::future_status::ready);
  loop_->flush();
}

TEST_F(TasksTest, WhatWorkCapturedIsGoneBeforeItComesBack) {
  Tasks tasks(*loop_);
  auto captured = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = captured;
  std::promise<bool> gone;
  loop_->post([&, captured = std::exchange(captured, nullptr)]() mutable {
    EXPECT_TRUE(tasks.run([&, kept = std::exchange(captured, nullptr)]() -> EventLoop::Closure {
      return [&] { gone.set_value(watched.expired()); };
    }));
  });
  auto answer = gone.get_future();
  ASSERT_EQ(answer.wait_for(test_bounds::kThread), std::future_status::ready);
  EXPECT_TRUE(answer.get());  // bounded: it is ready, as just seen
}

TEST_F(TasksTest, JoinWaitsForAllWork) {
  Tasks tasks(*loop_);
  std::atomic<int> done{0};
  for (int i = 0; i < 10; ++i) {
    run(tasks, [&]() -> EventLoop::Closure {
      ++done;
      return {};
    });
  }
  loop_->flush();
  tasks.join();  // bounded: every task ends by itself
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace svp
