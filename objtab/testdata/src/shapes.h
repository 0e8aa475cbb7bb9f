#pragma once
namespace shapes {
class Shape {
public:
  virtual ~Shape() {}
  virtual int sides() const = 0;
};
class Square : public Shape {
  int side;

public:
  explicit Square(int s) : side(s) {}
  int sides() const override { return 4; }
  int size() const { return side * side; }
};
inline int area(const Square &s) { return s.size() + s.sides(); }
int total(int n);
}
