//===- tile_scan_test.cpp - Running sums and triangular inverses of compiled tile kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda tile_scan_test PACKAGE.dlk...        (default device: cpu)
//
// Runs every kernel of the packages that the device supports.
//
// A kernel of x fills results whose names say what they hold: axis0_run16_reverse_exclusive_times3
// is x scanned three times along the axis after B. Numbers are small integers, so that sums are
// exact, and minus infinity, which must stay in its run. No x is zero: kernels that make NaN of
// zeros have it in their padding.
//
// A kernel of a fills t with (I + a)^-1, or t_times3 with what comes of inverting three times. On
// and above the diagonal a is NaN. Errors are held to what rounding can do.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/TileKernels.h"

#include <cmath>
#include <limits>
#include <random>

using namespace dl::test;

namespace {

/// The number that follows a word in a name.
int64_t numberAfter(const std::string &name, const std::string &word, int64_t otherwise) {
  const size_t at = name.find(word);
  return at == std::string::npos ? otherwise : std::stoll(name.substr(at + word.size()));
}

/// Rows by columns.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> elements;

  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), elements(rows * columns, 0) {}
  double &operator()(int64_t i, int64_t j) { return elements[i * columns + j]; }
  double operator()(int64_t i, int64_t j) const { return elements[i * columns + j]; }
};

void store(const Matrix &matrix, int64_t n, Argument &argument) {
  for (int64_t i = 0; i < matrix.rows; ++i)
    for (int64_t j = 0; j < matrix.columns; ++j)
      argument.set(matrix(i, j), n, i, j);
}

//===----------------------------------------------------------------------===//
// Running sums
//===----------------------------------------------------------------------===//

struct Scan {
  int64_t axis, run;
  bool reverse, exclusive;

  explicit Scan(const std::string &name)
      : axis(numberAfter(name, "axis", 0)), run(numberAfter(name, "run", 1)),
        reverse(name.find("reverse") != std::string::npos),
        exclusive(name.find("exclusive") != std::string::npos) {}

  Matrix operator()(const Matrix &x) const {
    Matrix result(x.rows, x.columns);
    const int64_t along = axis == 0 ? x.rows : x.columns, others = axis == 0 ? x.columns : x.rows;
    for (int64_t other = 0; other < others; ++other)
      for (int64_t start = 0; start < along; start += run) {
        double sum = 0;
        for (int64_t step = 0; step < run; ++step) {
          const int64_t at = start + (reverse ? run - 1 - step : step);
          const int64_t i = axis == 0 ? at : other, j = axis == 0 ? other : at;
          const double before = sum;
          sum += x(i, j);
          result(i, j) = exclusive ? before : sum;
        }
      }
    return result;
  }
};

/// Numbers that differ from their neighbours, both signs, none zero; odd n have infinities.
Matrix makeNumbers(int64_t rows, int64_t columns, int64_t n) {
  Matrix x(rows, columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t number = (n * 5 + i * 37 + j * 101 + i * j) % 9 - 4;
      const bool infinite = n % 2 == 1 && (i * 7 + j * 13 + n) % 41 == 0;
      x(i, j) =
          infinite ? -std::numeric_limits<double>::infinity() : double(number + (number >= 0));
    }
  return x;
}

class ScanTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override {
    static constexpr int64_t batch = 8;
    allocate(batch);
    Argument &x = *arguments.at("x");
    std::vector<Matrix> numbers;
    for (int64_t n = 0; n < batch; ++n) {
      numbers.push_back(makeNumbers(x.size(1), x.size(2), n));
      store(numbers.back(), n, x);
    }
    launch();
    if (HasFailure())
      return;
    for (const auto &result : inOrder) {
      if (result.get() == &x)
        continue;
      const Scan scan(result->name());
      for (int64_t n = 0; n < batch; ++n) {
        Matrix want = numbers[n];
        for (int64_t i = numberAfter(result->name(), "times", 1); --i >= 0;)
          want = scan(want);
        store(want, n, *result);
      }
    }
    expectImages();
  }
};

//===----------------------------------------------------------------------===//
// Inverses
//===----------------------------------------------------------------------===//

/// Of I + the part of `a` below the diagonal.
Matrix inverse(const Matrix &a) {
  Matrix x(a.rows, a.rows);
  for (int64_t j = 0; j < a.rows; ++j) {
    x(j, j) = 1;
    for (int64_t i = j + 1; i < a.rows; ++i)
      for (int64_t k = j; k < i; ++k)
        x(i, j) -= a(i, k) * x(k, j);
  }
  return x;
}

/// |a| |b|, of lower triangles.
Matrix magnitudes(const Matrix &a, const Matrix &b) {
  Matrix result(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k <= i; ++k)
      for (int64_t j = 0; j <= k; ++j)
        result(i, j) += std::abs(a(i, k) * b(k, j));
  return result;
}

/// Matrices whose inverses have elements of moderate size; of some all is exact.
constexpr int64_t numKinds = 7;
Matrix makeTriangle(int64_t rows, int64_t kind) {
  std::mt19937 random(unsigned(rows + 1000 * kind));
  auto uniform = [&] { return double(random() % 4001) / 2000 - 1; };
  std::vector<std::vector<double>> keys(rows, std::vector<double>(24));
  for (std::vector<double> &key : keys) {
    double squares = 0;
    for (double &element : key)
      squares += std::pow(element = uniform(), 2);
    for (double &element : key)
      element /= std::sqrt(squares);
    if (random() % 4 == 0)
      key = keys.front(); // a key written again and again
  }
  Matrix a(rows, rows);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < i; ++j) {
      double product = 0;
      for (size_t k = 0; k < keys[i].size(); ++k)
        product += keys[i][k] * keys[j][k];
      const double of[numKinds] = {0,                                        // the identity
                                   i == j + 1 ? -1.0 : 0.0,                  // all ones
                                   j % 16 == 3 ? uniform() : 0.0,            // columns
                                   uniform() / std::sqrt(double(rows)),      // anything
                                   uniform() * std::exp2(double(j - i + 1)), // less with distance
                                   product,                                  // products of keys
                                   product * std::exp2(double(j - i) / 8)};  // which decay
      a(i, j) = double(float(of[kind]));
    }
  return a;
}

class InverseTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override;

private:
  void check(int64_t kind, Argument &result, const std::vector<unsigned char> &memory);
};

void InverseTest::TestBody() {
  allocate(numKinds);
  ASSERT_EQ(inOrder.size(), 2u);
  Argument &a = *arguments.at("a"), &result = *inOrder.back();
  for (int64_t kind = 0; kind < numKinds; ++kind) {
    const Matrix triangle = makeTriangle(a.size(1), kind);
    for (int64_t i = 0; i < triangle.rows; ++i)
      for (int64_t j = 0; j < i; ++j)
        a.set(triangle(i, j), kind, i, j);
  }
  launch();
  if (HasFailure())
    return;
  const std::vector<unsigned char> memory = result.memory->download();
  for (int64_t kind = 0; kind < numKinds; ++kind)
    check(kind, result, memory);
  expectImages();
}

/// Takes what is right into the image.
void InverseTest::check(int64_t kind, Argument &result, const std::vector<unsigned char> &memory) {
  const int64_t rows = result.size(1), times = numberAfter(result.name(), "times", 1);
  Matrix triangle = makeTriangle(rows, kind), want = inverse(triangle);
  for (int64_t i = 0; i < rows; ++i)
    triangle(i, i) = 1;
  if (times % 2 == 0)
    std::swap(triangle, want);
  // Substitution and products of blocks make errors of some |want| |triangle| |want| each time.
  const Matrix size = magnitudes(magnitudes(want, triangle), want);
  int faults = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < rows; ++j) {
      const size_t place = result.offset(kind, i, j);
      float got;
      std::memcpy(&got, &memory[place], sizeof(got));
      const double allowed = j < i ? double(times * times * 8) * std::exp2(-24) * size(i, j) : 0;
      const bool isRight = std::abs(got - want(i, j)) <= allowed;
      if (!isRight && faults++ < 10)
        ADD_FAILURE() << "kind " << kind << ": " << result.name() << "[" << i << "][" << j
                      << "] is " << got << ", expected " << want(i, j) << " within " << allowed;
      std::memcpy(&result.memory->image[place], &got, sizeof(got));
    }
  EXPECT_EQ(faults, 0) << "wrong elements of kind " << kind;
}

::testing::Test *makeTest(const dlk_kernel *kernel) {
  dlk_arg_info first;
  if (dlk_kernel_get_arg(kernel, 0, &first) == DLK_OK && std::string(first.name) == "a")
    return new InverseTest(kernel);
  return new ScanTest(kernel);
}

} // namespace

int main(int argc, char **argv) { return runPackages(argc, argv, makeTest); }
