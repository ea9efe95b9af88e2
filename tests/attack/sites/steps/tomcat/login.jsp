<%-- A password that begins a session. What is right begins with `right-`. --%>
<%
String password = request.getParameter("pw");
if (password == null || !password.startsWith("right-")) {
    out.print("Login failed");
} else {
    request.changeSessionId();
    session.setAttribute("user", request.getParameter("login"));
    response.sendRedirect("/code.jsp");
}
%>
