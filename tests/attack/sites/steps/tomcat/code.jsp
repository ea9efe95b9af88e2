<%-- A code that the session says whose it is. Every code that is compared is written down. --%>
<%@ page import="java.nio.file.*" session="false" %>
<%
HttpSession session = request.getSession(false);
Object user = session == null ? null : session.getAttribute("user");
String code = request.getParameter("code");
if (user == null || code == null) {
    out.print("<form method=post>");
} else {
    String said = "{\"user\":\"%s\",\"password\":\"%s\"}\n".formatted(user, code.replaceAll("[^0-9A-Za-z-]", "?"));
    Path attempts = Path.of(System.getProperty("catalina.base"), "attempts.log");
    Files.writeString(attempts, said, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    if (code.startsWith("right-")) {
        response.sendRedirect("/home.jsp");
    } else {
        out.print("Wrong code");
    }
}
%>
