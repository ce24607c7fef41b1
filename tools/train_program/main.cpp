// SPDX-License-Identifier: Apache-2.0
// Trains one model under one plan, on the host or on devices (place.hpp).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "chosen.hpp"
#include "options.hpp"
#include "place.hpp"
#include "run_log.hpp"
#include "sample.hpp"
#include "text_data.hpp"
#include "validation.hpp"

namespace {

namespace hd = heddle;
using trainer_type = hd::basic_trainer<model, plan, place::backend>;
using resolved = hd::resolved<model, plan, place::backend>;
using schedule_table = hd::schedule_of<resolved>;

constexpr std::size_t stages = hd::basic_ledger<resolved>::stages;
constexpr std::size_t ranks = plan::mesh::size;
constexpr std::size_t traced_steps = 4;
/// Windows of a validation between steps: enough for a curve, and all of a text of a million characters. The last
/// validation takes all there are.
constexpr std::size_t validation_windows = 2048;

std::string const title = std::string(model::name) + " under " + std::string(plan::name);

constexpr std::size_t most_actions() {
  std::size_t most = 0;
  for (std::size_t s = 0; s < stages; ++s)
    if (schedule_table::actions(s).size() > most) most = schedule_table::actions(s).size();
  return most;
}

void write_file(std::string const& path, std::string const& text) {
  hd::detail::atomic_file out(path);
  out.write(text);
  out.commit();
}

void write_traces(std::string const& path, std::vector<hd::trace_recorder> const& recorders) {
  std::vector<hd::traced_rank> traced;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto const at = plan::mesh::value.coordinates_of(r);
    std::string name;
    for (std::size_t a = 0; a < plan::mesh::value.axes; ++a)
      name += (a == 0 ? "" : ", ") + std::string(plan::mesh::value.axis[a].text) + " " + std::to_string(at[a]);
    traced.push_back({&recorders[r], static_cast<std::int64_t>(r), 0, name});
  }
  hd::write_trace(path, traced);
}

/// Trains, and returns the loss over the whole validation text.
double train(train_options const& o, text_data const& data) {
  hd::corpus<text_data> const parts(data);
  hd::random_windows const sampler(parts.training.size(), model::context, o.seed);
  hd::cosine_schedule const learning_rate({o.learning_rate, o.min_learning_rate, o.warm_up, o.steps});
  run_log log(o.out, title, o.steps, plan::global_batch_size * model::context, o.records);
  std::vector<hd::trace_recorder> recorders(ranks, hd::trace_recorder(traced_steps * most_actions()));
  std::vector<std::int32_t> sampled;
  double final_loss = 0;
  // The step before which all ranks stop. Ranks are threads, and no rank ends a step before the first rank has begun
  // it: so when the first rank writes here during step s, all see it at the beginning of step s + 2.
  std::atomic<std::uint64_t> end{o.steps};

  auto const on_rank = [&](auto& rank) {
    bool const writes = rank.rank() == 0;
    hd::trace_recorder& recorder = recorders[rank.rank()];
    trainer_type trainer{rank,
                         {.seed = o.seed,
                          .learning_rate = o.learning_rate,
                          .clip = o.clip,
                          .optimizer = {.beta2 = o.beta2, .weight_decay = o.weight_decay},
                          .trace = &recorder}};
    hd::token_batch batch(trainer_type::shape(), model::context);
    validation check(trainer, parts.validation);
    auto const validate = [&](std::uint64_t step, std::size_t most) {
      std::size_t const count = std::min(most, check.windows());
      // The whole text can take minutes.
      auto const begin = run_log::clock::now();
      auto said = begin;
      double const loss = check.loss(count, [&](std::size_t done) {
        if (!writes || done == count || run_log::clock::now() - said < std::chrono::seconds(10)) return;
        said = run_log::clock::now();
        run_log::validating(done, count, std::chrono::duration<double>(said - begin).count());
      });
      if (writes)
        log.validated(step, loss,
                      count >= check.windows()
                          ? "the whole validation text"
                          : std::to_string(count) + " of " + std::to_string(check.windows()) + " windows");
      return loss;
    };
    std::uint64_t step = 0;
    if (writes) log.resume();
    for (; step < end.load(std::memory_order_acquire); ++step) {
      if (o.eval_every != 0 && step % o.eval_every == 0) {
        validate(step, validation_windows);
        if (writes) log.resume();
      }
      if (step % traced_steps == 0) recorder.clear();
      batch.fill(sampler, parts.training, step, trainer.data_rank());
      double const rate = learning_rate(step);
      hd::step_result const result = trainer.step(batch, rate);
      if (!writes) continue;
      if (result.skipped) run_log::skipped(step, result.loss_scale);
      log.stepped(step, result.loss.mean(), result.skipped ? std::nullopt : std::optional<double>(result.gradient_norm),
                  rate);
      if (interrupted() && step + 2 < end.load(std::memory_order_relaxed)) {
        std::printf("interrupted after step %llu; once more ends at once\n", static_cast<unsigned long long>(step));
        end.store(step + 2, std::memory_order_release);
      }
    }
    if (writes) log.trained();
    if (writes && check.windows() > validation_windows) {
      std::printf("validating on all %zu windows\n", check.windows());
      std::fflush(stdout);
    }
    double const loss = validate(step, check.windows());
    if (writes) {
      final_loss = loss;
      log.finish();
    }
    auto text = sample(trainer, rank, o.sample, data.line_end(), data.vocabulary(), model::vocabulary, o.seed,
                       [] { return interrupted(); });
    if (writes) sampled = std::move(text);
  };
  place::run<plan>(o.threads_per_rank, on_rank);

  write_file(log.path("schedule.svg"), schedule_picture());
  write_traces(log.path("trace.json"), recorders);
  std::printf("wrote metrics.csv, loss.svg, schedule.svg and trace.json to %s\n", o.out.c_str());
  if (o.sample > 0)
    std::printf("\na sample of %zu tokens from the trained model:\n\n%s\n\n", sampled.size(),
                data.printable(sampled).c_str());
  return final_loss;
}

}  // namespace

int main(int argc, char** argv) try {
  int status = 0;
  auto const options = read_options(argc, argv, "train-" + std::string(model::name) + "-" + std::string(plan::name),
                                    place::on_device, status);
  if (!options) return status;
  std::string const on = place::name<plan>();
  text_data const data(options->data, {std::string(model::name), model::vocabulary, model::context, model::characters});
  std::printf("%s\non    %s\ndata  %s; the first nine tenths to train on\n\n", plan_report().c_str(), on.c_str(),
              data.description().c_str());
  std::fflush(stdout);
  catch_interrupts();
  double const loss = train(*options, data);
  std::printf("validation loss %.4f\n", loss);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw hd::error("standard output: cannot be written; check where it goes, and the space there");
  return interrupted() ? 130 : 0;
} catch (std::exception const& e) {
  std::fflush(stdout);
  std::fprintf(stderr, "train: %s\n", e.what());
  return 1;
}
