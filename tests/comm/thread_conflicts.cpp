// SPDX-License-Identifier: Apache-2.0
// Calls that do not belong together, and calls in an order that cannot end (known faults NC).
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace thread_conflicts_test {
struct bfloat {
  std::uint16_t bits;
};
}  // namespace thread_conflicts_test

template <>
struct heddle::comm::element_traits<thread_conflicts_test::bfloat> {
  static constexpr element_kind kind = element_kind::bfloat16;
  using accumulator = void;
};

namespace thread_conflicts_test {
namespace {

/// `call` runs on both ranks; each must see an `Error` whose text has all the parts, within 5 s.
template <class Error, class Call>
void check_both(Call call, std::vector<std::string> const& parts) {
  auto const start = steady_clock::now();
  std::array<std::string, 3> texts;
  try {
    run_threads(2, [&](thread_communicator& world) {
      try {
        call(world);
      } catch (Error const& e) {
        texts[world.rank()] = e.what();
        throw;
      }
    });
  } catch (Error const& e) {
    texts[2] = e.what();
  }
  CHECK(steady_clock::now() - start < milliseconds(5000));
  for (std::string const& text : texts) {
    CAPTURE(text);
    for (std::string const& part : parts) CHECK_MESSAGE(text.find(part) != std::string::npos, part);
  }
}

/// Each rank makes its own call.
template <class Zero, class One>
void check_mismatch(Zero zero, One one, std::vector<std::string> const& parts) {
  check_both<call_mismatch>(
      [&](thread_communicator& world) {
        if (world.rank() == 0) zero(world);
        if (world.rank() == 1) one(world);
        world.barrier();
      },
      parts);
}

}  // namespace

TEST_CASE("unlike counts are named on both ranks (NC-1)") {
  watchdog const guard;
  std::array<float, 8> eight{};
  std::array<float, 6> six{};
  std::array<float, 4> four{};
  std::array<float, 3> three{};
  std::span<float> const s8(eight), s6(six), s4(four), s3(three);
  check_mismatch([&](auto& w) { w.all_reduce(s8); }, [&](auto& w) { w.all_reduce(s6); },
                 {"rank 0 calls all_reduce of 8 float32", "rank 1 calls all_reduce of 6 float32", "\"world\""});
  check_mismatch([&](auto& w) { w.all_reduce_async(s8).wait(); }, [&](auto& w) { w.all_reduce_async(s6).wait(); },
                 {"rank 0 calls all_reduce of 8 float32", "rank 1 calls all_reduce of 6 float32"});
  check_mismatch([&](auto& w) { w.reduce_scatter(s8, s4); }, [&](auto& w) { w.reduce_scatter(s6, s3); },
                 {"reduce_scatter of 8 float32", "reduce_scatter of 6 float32"});
  check_mismatch([&](auto& w) { w.all_gather(s4, s8); }, [&](auto& w) { w.all_gather(s3, s6); },
                 {"all_gather of 8 float32", "all_gather of 6 float32"});
  // Of calls made together: the lengths of the parts, though their sum is the same; how many; together or not.
  std::array<float, 4> more{};
  std::array<gather_part<float>, 2> const parts{{{s3, s6}, {s4.first(1), std::span(more).first(2)}}};
  std::array<gather_part<float>, 2> const others{{{s3.first(2), s6.first(4)}, {s4.first(2), more}}};
  std::array<gather_part<float>, 1> const alone{parts[0]};
  gather_parts const two(parts), two_others(others), one(alone);
  check_mismatch([&](auto& w) { w.all_gather(two); }, [&](auto& w) { w.all_gather(two_others); },
                 {"rank 0 calls all_gather of 8 float32 in 2 parts", "rank 1 calls all_gather of 8 float32 in 2 parts",
                  "the first that differ are their parts 0, of 6 and of 4"});
  check_mismatch([&](auto& w) { w.all_gather_async(two).wait(); }, [&](auto& w) { w.all_gather_async(one).wait(); },
                 {"all_gather of 8 float32 in 2 parts", "all_gather of 6 float32 in 1 parts"});
  std::array<gather_part<float>, 3> const longer{parts[0], parts[1], {}};
  check_mismatch([&](auto& w) { w.all_gather(two); }, [&](auto& w) { w.all_gather(gather_parts(longer)); },
                 {"all_gather of 8 float32 in 2 parts", "all_gather of 8 float32 in 3 parts"});
  check_mismatch([&](auto& w) { w.all_gather(two); }, [&](auto& w) { w.all_gather(s4, s8); },
                 {"all_gather of 8 float32 in 2 parts", "all_gather of 8 float32 ("});
  check_mismatch([&](auto& w) { w.broadcast(s8, 0); }, [&](auto& w) { w.broadcast(s6, 0); },
                 {"broadcast of 8 float32", "broadcast of 6 float32"});
  std::array<float, 8> to8{};
  std::array<float, 6> to6{};
  check_mismatch([&](auto& w) { w.all_to_all(s8, std::span<float>(to8)); },
                 [&](auto& w) { w.all_to_all(s6, std::span<float>(to6)); },
                 {"all_to_all of 8 float32", "all_to_all of 6 float32"});
  std::array<std::size_t, 2> const even{4, 4};
  std::array<std::size_t, 2> const odd{3, 3};
  check_mismatch([&](auto& w) { w.all_to_all(s8, even, std::span<float>(to8), even); },
                 [&](auto& w) { w.all_to_all(s6, odd, std::span<float>(to6), odd); },
                 {"all_to_all counts", "rank 0 sends 4 float32 to rank 1", "rank 1 receives 3 float32 from rank 0"});
  check_mismatch([&](auto& w) { w.send(s8, 1); }, [&](auto& w) { w.receive(s6, 0); },
                 {"rank 0 sends 8 float32 to rank 1", "rank 1 receives 6 float32 from rank 0"});
  check_mismatch([&](auto& w) { w.send_async(s8, 1).wait(); }, [&](auto& w) { w.receive_async(s6, 0).wait(); },
                 {"rank 0 sends 8 float32 to rank 1", "rank 1 receives 6 float32 from rank 0"});
}

TEST_CASE("unlike pieces and rows are named on both ranks, and what does not fit is refused") {
  watchdog const guard;
  std::array<float, 8> eight{};
  std::array<float, 4> four{};
  std::array<float, 12> twelve{};
  std::span<float> const s8(eight), s4(four), s12(twelve);
  std::array<std::span<float>, 2> const halves{s8.first(4), s8.last(4)}, others{s8.first(2), s8.last(6)};
  std::array<std::span<float>, 2> const crossing{s8.first(5), s8.last(4)};
  pieces const two(halves), two_others(others);
  check_mismatch([&](auto& w) { w.all_reduce(two, reduction::sum); },
                 [&](auto& w) { w.all_reduce(two, reduction::max); },
                 {"rank 0 calls all_reduce of 8 float32 in 2 parts (sum)",
                  "rank 1 calls all_reduce of 8 float32 in 2 parts (max)"});
  check_mismatch([&](auto& w) { w.all_reduce(two); }, [&](auto& w) { w.all_reduce(two_others); },
                 {"all_reduce of 8 float32 in 2 parts", "the first that differ are their parts 0, of 4 and of 2"});
  check_mismatch([&](auto& w) { w.all_reduce_async(two).wait(); }, [&](auto& w) { w.all_reduce_async(s8).wait(); },
                 {"all_reduce of 8 float32 in 2 parts", "all_reduce of 8 float32 (sum)"});
  check_both<communication_error>([&](auto& w) { w.all_reduce(pieces(crossing)); },
                                  {"piece 1 of 2 overlaps another or the operand; pass buffers that are apart"});
  check_both<communication_error>([&](auto& w) { w.reduce_scatter_async(s8, pieces(halves)).wait(); },
                                  {"reduce_scatter", "8 elements"});
  std::array<gather_part<float>, 1> const in_two{{{s4.first(2), s8.first(4), 2}}}, in_one{{{s4.first(2), s8.first(4)}}};
  check_mismatch([&](auto& w) { w.all_gather(gather_parts(in_two)); },
                 [&](auto& w) { w.all_gather(gather_parts(in_one)); },
                 {"the first that differ are their parts 0, of 4 in 2 rows and of 4"});
  std::array<gather_part<float>, 1> const uneven{{{s4, s8, 3}}};
  check_both<communication_error>([&](auto& w) { w.all_gather(gather_parts(uneven)); },
                                  {"part 0 has 3 rows, and out 8 elements; pass a multiple of rows times ranks"});
  // Each rank's own chunk, as it may be where there is one row.
  auto const inside = [&](auto& w) {
    std::array<gather_part<float>, 1> const own{{{s12.subspan(4 * w.rank(), 4), s12.first(8), 2}}};
    w.all_gather(gather_parts(own));
  };
  check_both<communication_error>(inside, {"part 0 has 2 rows, and in and out overlap; pass buffers that are apart"});
}

TEST_CASE("unlike types are named on both ranks, of equal count and of equal length in bytes (NC-2)") {
  watchdog const guard;
  std::array<float, 4> f{};
  std::array<std::int32_t, 4> i{};
  std::array<bfloat, 4> b4{};
  std::array<bfloat, 8> b8{};
  std::span<float> const floats(f);
  check_mismatch([&](auto& w) { w.all_reduce(floats); }, [&](auto& w) { w.all_reduce(std::span<std::int32_t>(i)); },
                 {"4 float32", "4 int32"});
  check_mismatch([&](auto& w) { w.broadcast(floats, 0); }, [&](auto& w) { w.broadcast(std::span<bfloat>(b4), 0); },
                 {"4 float32", "4 bfloat16"});
  check_mismatch([&](auto& w) { w.broadcast(floats, 0); }, [&](auto& w) { w.broadcast(std::span<bfloat>(b8), 0); },
                 {"4 float32", "8 bfloat16"});
  check_mismatch([&](auto& w) { w.receive(floats, 1); }, [&](auto& w) { w.send(std::span<bfloat>(b8), 0); },
                 {"rank 0 receives 4 float32", "rank 1 sends 8 bfloat16"});
}

TEST_CASE("unlike operations, reductions, roots and labels are named on both ranks") {
  watchdog const guard;
  std::array<float, 4> data{};
  std::array<float, 2> half{};
  std::span<float> const s(data);
  check_mismatch([&](auto& w) { w.all_reduce(s); }, [&](auto& w) { w.broadcast(s, 0); },
                 {"all_reduce of 4 float32 (sum)", "broadcast of 4 float32 from root 0"});
  check_mismatch([&](auto& w) { w.all_reduce(s); }, [&](auto& w) { w.all_reduce(s, reduction::max); },
                 {"(sum)", "(max)"});
  check_mismatch([&](auto& w) { w.reduce_scatter(s, std::span<float>(half)); }, [&](auto& w) { w.all_reduce(s); },
                 {"reduce_scatter", "all_reduce"});
  check_mismatch([&](auto& w) { w.broadcast(s, 0); }, [&](auto& w) { w.broadcast(s, 1); }, {"root 0", "root 1"});
  check_mismatch([&](auto& w) { w.barrier(); }, [&](auto& w) { w.all_reduce(s); }, {"barrier", "all_reduce"});
  check_mismatch([](auto& w) { static_cast<void>(w.split(0, 0, "dp")); },
                 [](auto& w) { static_cast<void>(w.split(0, 0, "tp")); }, {"\"dp\"", "\"tp\""});
  check_mismatch(
      [](auto& w) {
        w.subset(std::array<std::size_t, 2>{0, 1}, "a").barrier();
      },
      [](auto& w) {
        w.subset(std::array<std::size_t, 2>{1, 0}, "a").barrier();
      },
      {"{0, 1}", "{1, 0}"});
}

TEST_CASE("a mismatch is told before the last rank has come") {
  watchdog const guard;
  auto const start = steady_clock::now();
  CHECK_THROWS_AS(run_threads(3,
                              [](thread_communicator& world) {
                                std::vector<float> data(world.rank() + 1);
                                if (world.rank() == 2) std::this_thread::sleep_for(milliseconds(300));
                                world.all_reduce(std::span(data));
                              }),
                  call_mismatch);
  CHECK(steady_clock::now() - start < milliseconds(5000));
}

TEST_CASE("two groups called in unlike order are a circle, told long before the timeout (NC-3)") {
  watchdog const guard;
  auto const groups = [](thread_communicator& world, auto call) {
    thread_communicator a = world.split(0, world.rank(), "A");
    thread_communicator b = world.split(0, world.rank(), "B");
    std::vector<float> x(4), y(5);
    if (world.rank() == 0) {
      call(a, x, b, y);
    } else {
      call(b, y, a, x);
    }
  };
  std::vector<std::string> const parts{"circle", "rank 0 calls all_reduce of 4 float32", "on \"A\"",
                                       "rank 1 calls all_reduce of 5 float32", "on \"B\""};
  check_both<order_conflict>(
      [&](thread_communicator& world) {
        groups(world, [](auto& first, auto& x, auto& second, auto& y) {
          first.all_reduce(std::span(x));
          second.all_reduce(std::span(y));
        });
      },
      parts);
  check_both<order_conflict>(  // the helpers run them in the order of the calls
      [&](thread_communicator& world) {
        groups(world, [](auto& first, auto& x, auto& second, auto& y) {
          thread_handle one = first.all_reduce_async(std::span(x));
          thread_handle two = second.all_reduce_async(std::span(y));
          two.wait();
          one.wait();
        });
      },
      parts);
  check_both<order_conflict>(  // rank 0 waits for its helper, whose peer waits for rank 0
      [&](thread_communicator& world) {
        groups(world, [](auto& first, auto& x, auto& second, auto& y) {
          first.all_reduce_async(std::span(x)).wait();
          second.all_reduce(std::span(y));
        });
      },
      parts);
}

TEST_CASE("transfers that wait for each other are a circle") {
  watchdog const guard;
  check_both<order_conflict>(
      [](thread_communicator& world) {
        std::vector<float> data(4);
        world.send(std::span(data), 1 - world.rank());
        world.receive(std::span(data), 1 - world.rank());
      },
      {"circle", "rank 0 sends 4 float32 to rank 1", "rank 1 sends 4 float32 to rank 0"});
  check_both<order_conflict>(
      [](thread_communicator& world) {
        std::vector<float> data(4);
        if (world.rank() == 0) {
          world.receive(std::span(data), 1);
          world.barrier();
        } else {
          world.barrier();
          world.send(std::span(data), 0);
        }
      },
      {"circle", "rank 0 receives 4 float32 from rank 1", "rank 1 calls barrier"});
}

TEST_CASE("a slow rank is no circle") {
  watchdog const guard;
  int met = 0;
  run_threads(3,
              [&](thread_communicator& world) {
                thread_communicator a = world.split(0, world.rank(), "A");
                thread_communicator b = world.split(0, world.rank(), "B");
                // ranks 0 and 1 wait in both groups while rank 2 computes, several times the age of a circle
                if (world.rank() == 2) std::this_thread::sleep_for(milliseconds(400));
                if (world.rank() == 0) {
                  std::vector<int> data(1);
                  a.receive(std::span(data), 2);
                }
                if (world.rank() == 2) a.send(std::span<int const>(std::array<int, 1>{}), 0);
                b.barrier();
                if (world.rank() == 0) ++met;
              },
              {.conflict_after = milliseconds(50)});
  CHECK(met == 1);
}

}  // namespace thread_conflicts_test
